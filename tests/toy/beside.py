"""The text of a trainer that lies beside an experiment file."""

TEXT = """
import os, sys
from dataclasses import dataclass
from plat.trainer.api import Outcome, TrainerSpec

@dataclass
class Config:
    trainer: str = "MODULE:SPEC"
    seed: int = 0

def train(config, io):
    LINES
    return Outcome("finished")

SPEC = TrainerSpec("MODULE", "1.0", Config, lambda: train)
"""


def trainer_text(module: str, *lines: str) -> str:
    """Return the text of `module`, whose SPEC trains by these lines; they have `config` and `io`."""
    return TEXT.replace("MODULE", module).replace("LINES", "\n    ".join(lines))
