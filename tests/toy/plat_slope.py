"""A trainer whose success grows by `slope` a step, from a little that depends on the seed: the best trial is known."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

import numpy

from plat.trainer.api import Outcome, RunIO, State, Trainer


@dataclass
class Train:
    iterations: int = 16


@dataclass
class SlopeConfig:
    """`sleep`: seconds a step. `diverges`: success is never a number."""

    trainer: str = "plat_slope:Slope"
    seed: int = 0
    slope: float = 0.01
    sleep: float = 0.0
    diverges: bool = False
    train: Train = field(default_factory=Train)


class Slope(Trainer):
    name, version, config_type = "plat_slope", "1.0", SlopeConfig

    def train(self, config: SlopeConfig, io: RunIO) -> Outcome:
        restored = io.restore()
        start, success = (restored[0], restored[1].meta["success"]) if restored else (0, 0.001 * (config.seed % 7))
        if restored is None:
            io.log(0, {"val/success": float("nan") if config.diverges else success})
        for step in range(start + 1, config.train.iterations + 1):
            success += config.slope
            io.log(step, {"val/success": float("nan") if config.diverges else success})
            time.sleep(config.sleep)
            if step % 2 == 0 or (io.should_stop() and step < config.train.iterations):
                io.save(step, State({"none": numpy.zeros(1)}, {"success": success}))
            if io.should_stop() and step < config.train.iterations:
                return Outcome("interrupted")
        return Outcome("finished", {})
