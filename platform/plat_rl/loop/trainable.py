"""What the book-keeper holds of a run: the interface of its trainer, and the progress that a checkpoint has."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from typing import Any, Protocol

from plat.errors import RunError
from plat.trainer.api import State


@dataclass(frozen=True)
class Measured:
    """The result of a measurement of a policy: its metrics, and a JSON-able table with details.

    further   name -> more such tables, e.g. `val_trajectories`
    """

    metrics: Mapping[str, float]
    table: Mapping[str, Any]
    further: Mapping[str, Any] = field(default_factory=dict)


class Trainable(Protocol):
    """A trainer as `plat_rl.loop.bookkeeper.Bookkeeper` uses it."""

    def validate(self) -> Measured:
        """Evaluate on the validation instances: metrics without `val/`, `success` among them; a table per instance."""

    def evaluate_heldout(self, peak: State | None) -> Measured:
        """Evaluate the current policy, or that of the checkpoint `peak`, on the held-out instances, as `validate` does.

        After a call with a checkpoint the run is over: the current policy need not be restored.
        """

    def probe(self, step: int, with_null: bool) -> Measured:
        """Probe the reasoning of the current policy: metrics with the prefix `probe/`, and the table of its blocks.

        with_null   also measure `probe/retrieval_untrained`, on an untrained model; the trainer `verl` ignores it
        """

    def state(self) -> State:
        """Return what `restore` needs to resume bit-identically, without what follows from config and step."""

    def restore(self, step: int, state: State) -> None:
        """Resume from the result of `state` after `step` iterations."""


# The progress of a run: what a checkpoint holds besides the trainer's own state, and a stopwatch.

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
