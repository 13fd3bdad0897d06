"""The typed config of a recorded run. Any other key of an experiment file is a value of the run (`args`)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from plat.rl.config import number


@dataclass
class RecordedConfig:
    """The place of the recordings, and what plat must know about them."""

    folder: str = field(default=".", metadata={"folder": True})  # of the recordings; relative to the file's folder
    success: str = ""  # a metric from 0 to 1, if there is one, that progress and lists of runs show in percent


@dataclass
class RecordedRunConfig:
    """The values of a recorded run."""

    trainer: str = "recorded"
    seed: int = number(0, minimum=0)  # of the run
    recorded: RecordedConfig = field(default_factory=RecordedConfig)
    args: dict[str, Any] = field(default_factory=dict, metadata={"other_keys": True})  # axes and keys without a place
