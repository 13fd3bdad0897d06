"""What the book-keeper asks of a trainer: to measure its policy, and to hand over or take back its state."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from plat.trainer.api import State


@dataclass(frozen=True)
class Measured:
    """What a measurement of a policy gave: its metrics, and a JSON-able table with more than the means.

    further   name -> more such tables, e.g. `val_trajectories`
    """

    metrics: Mapping[str, float]
    table: Mapping[str, Any]
    further: Mapping[str, Any] = field(default_factory=dict)


class Trainable(Protocol):
    """A trainer as `plat.trainer.loop.bookkeeper.Bookkeeper` sees it."""

    def validate(self) -> Measured:
        """The current policy on the validation instances: metrics by their names without `val/`, `success` among
        them, and a table of the results of each instance."""

    def evaluate_heldout(self, peak: State | None) -> Measured:
        """The same on the held-out instances, of the current policy or, where `peak` is given, of that checkpoint's.

        After a call with a checkpoint the run is over: the current policy need not be put back.
        """

    def probe(self, step: int, with_null: bool) -> Measured:
        """The reasoning probe of the current policy: metrics with their prefix `probe/`, and the table of its blocks.

        with_null   also `probe/retrieval_untrained`, the same measurement of a model that was never trained
        """

    def state(self) -> State:
        """What `restore` needs to go on with the same bits. What is a function of config and step is left out."""

    def restore(self, step: int, state: State) -> None:
        """Go on from what `state` gave after `step` iterations."""
