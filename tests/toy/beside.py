"""The text of a trainer that lies beside an experiment file."""

TEXT = """
import os, sys
from dataclasses import dataclass
from plat.trainer.api import Outcome, Trainer

@dataclass
class Config:
    trainer: str = "MODULE:Own"
    seed: int = 0

class Own(Trainer):
    name, version, config_type = "MODULE", "1.0", Config

    def train(self, config, io):
        LINES
        return Outcome("finished")
"""


def trainer_text(module: str, *lines: str) -> str:
    """Return the text of `module`, whose class Own trains by these lines; they have `config` and `io`."""
    return TEXT.replace("MODULE", module).replace("LINES", "\n        ".join(lines))
