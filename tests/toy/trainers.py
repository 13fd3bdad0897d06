"""Trainers that exist only in a test."""

from __future__ import annotations

import inspect
from typing import Any

from plat.trainer.api import Outcome, RunIO, Trainer


class Bare(Trainer):
    name, version = "toy", "1"

    def train(self, config: Any, io: RunIO) -> Outcome:
        return Outcome("finished")


def like(base: type[Trainer], **members: Any) -> type[Trainer]:
    """Return a subclass in the module of `base`. Functions among the members are called without `self`."""
    own = {name: staticmethod(member) if inspect.isfunction(member) else member for name, member in members.items()}
    return type(base.__name__, (base,), {"__module__": base.__module__, **own})
