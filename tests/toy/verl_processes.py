"""Whole runs with verl as users start them, their processes, and what they have logged."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

COMMON = ("trainer=verl", "scale=smoke", "task=sokoban", "train.iterations=3", "early_stop.variance_window=0")
PPO = ("algorithm=ppo", "filter=top_p")
LIMIT = 480  # seconds; a run takes about 45 on two free cores
GUARD = "plat_rl.verl.machines.guard"


def start(home: Path, *overrides: str) -> subprocess.Popen[str]:
    home.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, "-m", "plat", "run", *COMMON, *overrides, "--home", str(home)]
    with (home / "out.txt").open("w") as out:
        return subprocess.Popen(command, stdout=out, stderr=subprocess.STDOUT, text=True, start_new_session=True)


def run(home: Path, *overrides: str) -> dict[str, Any]:
    """Do a run to its end; its result.json."""
    assert start(home, *overrides).wait(LIMIT) == 0, said(home)
    (result,) = home.glob("runs/*/*/result.json")
    content: dict[str, Any] = json.loads(result.read_text())
    return content


def said(home: Path) -> str:
    """What a run's command and its attempts have printed, for a test that fails."""
    logs = [home / "out.txt", *sorted(home.glob("runs/*/*/attempts/*/log.txt"))]
    return "\n".join(file.read_text()[-4000:] for file in logs)


def events(home: Path) -> list[dict[str, Any]]:
    """The events of all attempts, in order."""
    files = sorted(home.glob("runs/*/*/attempts/*/events.jsonl"))
    return [event for file in files for event in read_events(file)]


def read_events(file: Path) -> list[dict[str, Any]]:
    """The events in a file that may still grow; its last line is left out while it is being written."""
    lines = file.read_text().splitlines(keepends=True) if file.exists() else []
    return [json.loads(line) for line in lines if line.endswith("\n")]


def history(home: Path) -> dict[tuple[int, str], float]:
    """Every metric but timings by (step, name); a later attempt's value counts."""
    return {
        (event["step"], name): value
        for event in events(home)
        for name, value in event.get("metrics", {}).items()
        if not name.startswith(("time/", "mem/"))
    }


def tables(home: Path) -> dict[tuple[int, str], Any]:
    """Every table by (step, name); a later attempt's counts."""
    return {(event["step"], event["table"]): event["data"] for event in events(home) if "table" in event}


@dataclass(frozen=True)
class Attempt:
    """A running attempt: the process of `plat run`, and the home of its run."""

    command: subprocess.Popen[str]
    home: Path

    @property
    def folder(self) -> Path:
        """The newest attempt's."""
        return max(self.home.glob("runs/*/*/attempts/*"))

    @property
    def driver(self) -> psutil.Process:
        """The process of the run, which holds its lease."""
        return psutil.Process(json.loads((self.folder.parent.parent / "lease.json").read_text())["pid"])

    def workers(self) -> list[psutil.Process]:
        """verl's training workers."""
        return [child for child in self.driver.children(recursive=True) if title(child).startswith("ray::WorkerDict")]


def title(process: psutil.Process) -> str:
    """What a process calls itself: Ray's are named after what they are doing."""
    try:
        return " ".join(process.cmdline())
    except psutil.Error:
        return ""


def started(home: Path, *overrides: str) -> Attempt:
    """Start another attempt of a run and wait until it holds the lease."""
    earlier = len(list(home.glob("runs/*/*/attempts/*")))
    attempt = Attempt(start(home, *overrides), home)
    until = time.monotonic() + LIMIT
    while len(list(home.glob("runs/*/*/attempts/*/attempt.json"))) == earlier:
        assert attempt.command.poll() is None and time.monotonic() < until, said(home)
        time.sleep(0.05)
    return attempt


def freeze(attempt: Attempt, moment: Callable[[Attempt], bool]) -> None:
    """Stop the run's process and its training workers at a moment of a run, so that the moment lasts."""
    until = time.monotonic() + LIMIT
    while True:
        assert attempt.command.poll() is None and time.monotonic() < until, said(attempt.home)
        if moment(attempt):
            frozen = [attempt.driver, *attempt.workers()]
            send(frozen, signal.SIGSTOP)
            if moment(attempt):
                return
            send(frozen, signal.SIGCONT)
        time.sleep(0.02)


def thaw(attempt: Attempt) -> None:
    send([attempt.driver, *attempt.workers()], signal.SIGCONT)


def send(processes: list[psutil.Process], number: int) -> None:
    for process in processes:
        os.kill(process.pid, number)
