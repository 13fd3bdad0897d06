"""A trainer that takes milliseconds and needs no torch: a random walk that can be told to misbehave.

`Toy` is named in a config as `trainer: plat_toy:Toy`; the folder of this file must be on sys.path. Its history is a
function of (seed, iterations) alone, however often it is interrupted.
"""

from __future__ import annotations

import ctypes
import dataclasses
import os
import random
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import filelock
import numpy

from plat.errors import RunError, SpecError
from plat.trainer.api import Outcome, RunIO, State, Trainer

# Leaves its parent, its session and its group, and does not end when it is asked to.
DAEMON = (
    "import os, signal, time\n"
    "if os.fork(): os._exit(0)\n"
    "os.setsid()\n"
    "if os.fork(): os._exit(0)\n"
    "signal.signal(signal.SIGTERM, signal.SIG_IGN); signal.signal(signal.SIGINT, signal.SIG_IGN)\n"
    "print(os.getpid(), flush=True); time.sleep(1000)"
)
CHILD = "import signal, time; signal.signal(2, signal.SIG_IGN); print('started', flush=True); time.sleep(1000)"


@dataclass
class Train:
    iterations: int = 6
    checkpoint_every: int = 2


@dataclass
class ToyConfig:
    """`mischief` happens once per run, at step `at`: see `misbehave`. `recipe` names a shared preparation."""

    trainer: str = "plat_toy:Toy"
    scale: str = "toy"
    seed: int = 0
    train: Train = field(default_factory=Train)
    sleep: float = 0.0  # seconds per step
    mischief: str = "none"
    at: int = 3
    recipe: str = ""
    gpus: int = 0
    micro: int = 1  # operational


def misbehave(config: ToyConfig, step: int, io: RunIO) -> None:
    """The named thing goes wrong at step `at`; those ending in `_once` only the first time, by a mark in the cache."""
    if step != config.at or config.mischief == "none":
        return
    kind = config.mischief
    if kind.endswith("_once"):
        mark = io.cache / f"mischief-{kind}-{config.seed}"
        if mark.exists():
            return
        mark.touch()
        kind = kind.removesuffix("_once")
    if kind == "segfault":
        ctypes.string_at(0)
    elif kind == "exit":
        os._exit(7)
    elif kind == "sigkill":
        os.kill(os.getpid(), 9)
    elif kind == "nan":
        raise RunError("the loss is not a number", failure_class="nan", where=f"step {step}")
    elif kind == "memory":
        raise MemoryError("no room")
    elif kind == "allocate":
        allocate(config.micro)
    elif kind == "error":
        raise ValueError("a mistake in the toy")
    elif kind == "hang":
        time.sleep(1000)
    elif kind.startswith("child"):  # it starts a process that never ends by itself
        child = subprocess.Popen([sys.executable, "-c", CHILD], stdout=subprocess.PIPE)
        assert child.stdout is not None and child.stdout.readline() == b"started\n"
        (io.cache / "child.part").write_text(str(child.pid))
        (io.cache / "child.part").rename(io.cache / "child.txt")  # a test that sees the file may read it at once
        if kind == "child_and_hang":
            time.sleep(1000)
    elif "daemon" in kind:
        environment = {} if kind.startswith("unmarked") else None  # {}: without anything that names the run
        parent = subprocess.Popen([sys.executable, "-c", DAEMON], stdout=subprocess.PIPE, env=environment)
        assert parent.stdout is not None
        (io.cache / "daemon.part").write_text(parent.stdout.readline().decode())
        (io.cache / "daemon.part").rename(io.cache / "daemon.txt")
        parent.wait()
        if kind.endswith("_and_hang"):
            time.sleep(1000)
    elif kind == "disk":
        import resource

        resource.setrlimit(resource.RLIMIT_FSIZE, (2000, 2000))
        for more in range(1000):
            io.table("ballast", step, [more] * 50)


def allocate(micro: int) -> None:
    """Take 100 MB for each row of the micro-batch, where the system gives 300 MB more than there is."""
    import resource

    pages = int(Path("/proc/self/statm").read_text().split()[0])
    before = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + 300_000_000, before[1]))
    try:
        numpy.zeros(micro * 100_000_000, dtype=numpy.uint8)
    finally:
        resource.setrlimit(resource.RLIMIT_AS, before)


def wait_for_gate(cache: Path) -> None:
    for step in range(1200):
        if (cache / "gate").exists():
            return
        print(f"waiting: step {step}/1200", flush=True)
        time.sleep(0.05)
    raise RunError("nobody has opened the gate")


class Toy(Trainer):
    name, version, config_type = "toy", "1.0", ToyConfig
    operational_keys = ("micro",)
    legacy: Mapping[str, Any] = {"sleep": 0.0}
    shown: Mapping[str, str] = {"agreement": "val/agreement"}
    preload = ("plat_toy",)

    def train(self, config: ToyConfig, io: RunIO) -> Outcome:
        rng = random.Random(config.seed)
        walk, start, best = numpy.zeros(3), 0, -1.0
        restored = io.restore()
        if restored is not None:
            start, state = restored
            walk, best = state.tensors["walk"], state.meta["best"]
            version, numbers, gauss = state.meta["rng"]
            rng.setstate((version, tuple(numbers), gauss))
        print(f"toy starts at step {start}", flush=True)

        def state() -> State:
            return State({"walk": walk}, {"rng": rng.getstate(), "best": best})

        for step in range(start, config.train.iterations + 1):
            if step == start and restored is not None:
                continue  # the checkpoint covers it
            walk = walk + numpy.array([rng.gauss(0, 1) for _ in range(3)])
            success = rng.random()
            io.log(
                step, {"walk/norm": float(numpy.linalg.norm(walk)), "rollout/odd": float("nan") if step % 2 else 1.0}
            )
            io.table("walk", step, walk.tolist())
            io.log(step, {"val/success": success, "time/step": time.perf_counter()})
            misbehave(config, step, io)
            if config.sleep:
                time.sleep(config.sleep)
            if success > best:
                best = success
                io.save(step, state(), peak=True)
            elif step % config.train.checkpoint_every == 0:
                io.save(step, state())
            if io.should_stop() and step < config.train.iterations:
                io.save(step, state())
                return Outcome("interrupted")
        if config.mischief == "collapse":
            return Outcome("stopped:reward_variance_collapse", {"parameters": 3})
        peak = io.load_peak()
        return Outcome("finished", {"parameters": 3, "peak_step": peak[0] if peak else None})

    def resources(self, config: Any) -> dict[str, int]:
        return {"threads": 1, "gpus": config.gpus}

    def fingerprint(self, config: ToyConfig) -> dict[str, int]:
        return {"toy": 1}

    def preparation(self, config: ToyConfig) -> tuple[str, str] | None:
        return (config.recipe, f"recipe {config.recipe}") if config.recipe else None

    def prepare(self, config: ToyConfig, cache: Path) -> None:
        """Append one line per time the work is really done."""
        if config.recipe == "broken":
            raise SpecError("the recipe is broken", where="recipe", fix="choose another")
        folder = cache / "toy" / config.recipe
        folder.parent.mkdir(exist_ok=True)
        with filelock.FileLock(cache / f"toy-{config.recipe}.lock"):
            if folder.exists():
                return
            print("preparing", config.recipe, flush=True)
            if config.recipe == "gated":  # waits until the file `gate` is there
                wait_for_gate(cache)
            time.sleep(0.05)
            with open(cache / "prepared.txt", "a") as file:
                file.write(config.recipe + "\n")
            folder.mkdir()

    def less_memory(self, config: ToyConfig) -> ToyConfig | None:
        return dataclasses.replace(config, micro=config.micro // 2) if config.micro > 1 else None

    def check(self, config: ToyConfig) -> None:
        if config.mischief == "unfit":
            raise SpecError("the toy cannot do this", where="mischief", fix="mischief=none")

    def check_machine(self, config: ToyConfig) -> None:
        if config.mischief == "huge":
            raise SpecError("the toy has no room here", where="mischief", fix="mischief=none")
