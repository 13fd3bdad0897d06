"""A plug-in trainer that only finishes: the remaining time is plat's work around a run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from plat.trainer.api import Outcome, RunIO, Trainer


@dataclass
class NoopConfig:
    trainer: str = "noop_trainer:Noop"
    scale: str = "bench"
    seed: int = 0


class Noop(Trainer):
    name, version, config_type = "noop", "1", NoopConfig

    def train(self, config: NoopConfig, io: RunIO) -> Outcome:
        io.log(0, {"val/success": 1.0})
        return Outcome("finished")

    def iterations(self, config: Mapping[str, Any]) -> int:
        return 1
