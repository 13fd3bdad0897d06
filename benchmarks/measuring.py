"""Time calls and commands, and print the figures that `run.py` collects. All benchmarks share these functions."""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple, TypeVar

Value = TypeVar("Value")
MARK = "BENCH "
ONE_THREAD = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false"}
# PYTHONDONTWRITEBYTECODE: without it modules are compiled once, as for a user, not at the start of every command
DROPPED = ("PLAT_HOME", "MLFLOW_TRACKING_URI", "PYTHONDONTWRITEBYTECODE")


SHARE = float(os.environ.get("PLAT_BENCH_SHARE") or 1.0)  # of the usual sizes, e.g. 0.01 to see that a benchmark runs


class Cost(NamedTuple):
    """The cost of a process and of the children that it waited for."""

    seconds: float  # of the processor, user and system
    memory: int  # peak, in bytes


def figure(name: str, value: float, unit: str, against: str, **judged: float | None) -> None:
    """Print a line of the table of `run.py`; `judged`: `ratio` and `ok`, as described there."""
    print(MARK + json.dumps({"name": name, "value": value, "unit": unit, "against": against, **judged}), flush=True)


def sized(number: int) -> int:
    """Return a size of a benchmark, times `SHARE`, at least 2."""
    return number if SHARE == 1.0 else max(2, round(number * SHARE))


def options(description: str | None, **numbers: int) -> argparse.ArgumentParser:
    """Return a parser with an option for each whole number, which is its default (times `SHARE`)."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, number in numbers.items():
        parser.add_argument(f"--{name}", type=int, default=sized(number), help="[%(default)s]")
    return parser


def plat(*words: object, home: Path) -> list[str]:
    """Return the command `plat WORDS --home HOME`."""
    return [sys.executable, "-m", "plat", *map(str, words), "--home", str(home)]


def clean_environment() -> dict[str, str]:
    """Return the variables of this process without those that change what `plat` does."""
    return {name: value for name, value in os.environ.items() if name not in DROPPED}


def cost(command: Sequence[str]) -> Cost:
    """Run a command without showing its output. Raises CalledProcessError if it fails."""
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, env=clean_environment())
    _, status, usage = os.wait4(process.pid, 0)
    if status:
        raise subprocess.CalledProcessError(os.waitstatus_to_exitcode(status), command)
    return Cost(usage.ru_utime + usage.ru_stime, usage.ru_maxrss * 1024)


def alternately(*commands: Sequence[str], repeats: int) -> list[Cost]:
    """Return the lowest cost of each command. They take turns, so that all meet the same load."""
    rounds = [[cost(command) for command in commands] for _ in range(repeats)]
    return [min(costs) for costs in zip(*rounds, strict=True)]


def best(work: Callable[[], Value], repeats: int = 3) -> tuple[float, Value]:
    """Return the fewest wall-clock seconds of some calls, and the result of the last one."""
    times = []
    for _ in range(repeats):
        started = time.perf_counter()
        value = work()
        times.append(time.perf_counter() - started)
    return min(times), value


def use_one_thread(**variables: str) -> None:
    """Start this script again with the environment of one thread and these variables, if it lacks one of them.

    Libraries read them when the process starts.
    """
    wanted = ONE_THREAD | variables
    if any(os.environ.get(name) != value for name, value in wanted.items()):
        os.execve(sys.executable, [sys.executable, *sys.argv], os.environ | wanted)
