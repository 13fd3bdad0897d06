"""A plug-in trainer that only finishes: the remaining time is plat's work around a run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from plat.trainer.api import Outcome, RunIO, TrainerSpec


@dataclass
class NoopConfig:
    trainer: str = "noop_trainer:SPEC"
    scale: str = "bench"
    seed: int = 0


def train(config: Any, io: RunIO) -> Outcome:
    io.log(0, {"val/success": 1.0})
    return Outcome("finished")


SPEC = TrainerSpec(name="noop", version="1", config_type=NoopConfig, load=lambda: train, iterations=lambda config: 1)
