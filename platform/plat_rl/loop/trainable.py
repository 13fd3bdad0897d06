"""The interface of a trainer for the book-keeper: measure the policy, hand over its state, and take it back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

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
