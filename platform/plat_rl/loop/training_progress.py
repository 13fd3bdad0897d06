"""The progress of a run: what a checkpoint holds besides the trainer's own state, and a stopwatch."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from typing import Any

from plat.errors import RunError
from plat.trainer.api import State

OWN = "trainer"  # the key of the trainer's own entries in a checkpoint's meta data


@dataclass
class Progress:
    """The state of a run after `step` iterations, JSON-able. `best_*`: the evaluation with the highest success."""

    step: int = 0
    best_success: float = -1.0
    best_step: int = 0
    early_stop: dict[str, float] = field(default_factory=dict)
    sigma_ema: dict[str, float] = field(default_factory=dict)


def with_progress(state: State, progress: Progress) -> State:
    """Return the content of a checkpoint: the trainer's tensors and meta data, and the progress; no `state.files`."""
    own: dict[str, Any] = {OWN: state.meta} if state.meta else {}
    return State(state.tensors, asdict(progress) | own)


def read_progress(step: int, state: State) -> tuple[Progress, State]:
    """Return the progress in the checkpoint of `step`, and the trainer's state as passed to `with_progress`.

    Raises RunError if the checkpoint says that it is of another step.
    """
    meta = dict(state.meta)
    own = meta.pop(OWN, {})
    progress = Progress(**meta)
    if progress.step != step:
        raise RunError(
            f"checkpoint of step {step} says it is of step {progress.step}",
            fix="delete that checkpoint's folder: an older one will be used",
        )
    return progress, State(state.tensors, own, state.files)


class Stopwatch:
    """Seconds of an iteration and of its parts."""

    def __init__(self) -> None:
        self.started = time.perf_counter()
        self.seconds: dict[str, float] = {}

    @contextmanager
    def timed(self, part: str) -> Iterator[None]:
        """Add the time of the block to `part`, unless the block raises."""
        started = time.perf_counter()
        yield
        self.seconds[part] = self.seconds.get(part, 0.0) + time.perf_counter() - started

    def metrics(self) -> dict[str, float]:
        """Return, in seconds, `time/<part>` of each part and `time/step`, the time since the stopwatch was made."""
        parts = {f"time/{part}": seconds for part, seconds in self.seconds.items()}
        return parts | {"time/step": time.perf_counter() - self.started}
