"""How far a run has come: what a checkpoint carries besides tensors, and where the time went."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field

from plat.errors import RunError
from plat.trainer.api import State
from plat.trainer.embedded.learner import Learner


@dataclass
class Progress:
    """The state of a run after `step` iterations, JSON-able. `best_` is the evaluation with the highest success."""

    step: int = 0
    best_success: float = -1.0
    best_step: int = 0
    early_stop: dict[str, float] = field(default_factory=dict)
    sigma_ema: dict[str, float] = field(default_factory=dict)


def state_of(learner: Learner, progress: Progress) -> State:
    """The content of a checkpoint: the learner's tensors, and the progress as its meta data."""
    return State({name: tensor.cpu() for name, tensor in learner.tensors().items()}, asdict(progress))


def read_progress(step: int, state: State) -> Progress:
    """The progress in the checkpoint of `step`; RunError where it says that it is of another step."""
    progress = Progress(**state.meta)
    if progress.step != step:
        raise RunError(
            f"checkpoint of step {step} says it is of step {progress.step}",
            mend="delete that checkpoint's folder: an older one will be used",
        )
    return progress


class Stopwatch:
    """Seconds of an iteration and of its parts."""

    def __init__(self) -> None:
        self.restart()

    def restart(self) -> None:
        self.started = time.perf_counter()
        self.seconds: dict[str, float] = {}

    @contextmanager
    def timed(self, part: str) -> Iterator[None]:
        """Add the time that the block takes to `part`."""
        started = time.perf_counter()
        yield
        self.seconds[part] = self.seconds.get(part, 0.0) + time.perf_counter() - started

    def metrics(self) -> dict[str, float]:
        """`time/<part>` and `time/step`, in seconds."""
        parts = {f"time/{part}": seconds for part, seconds in self.seconds.items()}
        return parts | {"time/step": time.perf_counter() - self.started}
