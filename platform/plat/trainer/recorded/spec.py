"""The specification of the trainer `recorded`."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from plat.errors import RunError, SpecError
from plat.plain_files import read_bytes
from plat.plugins.plugin_code import DIGITS
from plat.trainer.api import HEADLINE, Outcome, RunIO, Trainer
from plat.trainer.config_fields import number
from plat.trainer.recorded.recording import AGAIN, check_recording, recorded_metrics, recording_path
from plat.trainer.script.command import flat
from plat.words.outcomes import FINISHED


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


OF_A_RUN = 1 << 16  # bytes that any run keeps


def _path(config: RecordedRunConfig) -> Path:
    return recording_path(Path(config.recorded.folder), flat(config.args), config.seed)


class RecordedTrainer(Trainer):
    """Replays runs that `plat import` has recorded."""

    name = "recorded"
    version = "1.0"
    config_type = RecordedRunConfig
    operational_keys = ("recorded.folder", "recorded.success")
    cost_keys = ()

    def train(self, config: RecordedRunConfig, io: RunIO) -> Outcome:
        """Log the metrics of the recording with these values. Raises RunError if it is missing, damaged or empty."""
        step = None
        for step, metrics in recorded_metrics(_path(config)):
            io.log(step, metrics)
        if step is None:
            raise RunError("the recording has no metrics", where=str(_path(config)), fix=AGAIN)
        return Outcome(FINISHED)

    def validate(self, config: RecordedRunConfig) -> RecordedRunConfig:
        """Return the config. Raises SpecError if no recording has these values."""
        folder = Path(config.recorded.folder)
        if not folder.is_dir():
            raise SpecError(
                f"there is no folder {folder}", where="recorded.folder", fix="name one that `plat import` wrote"
            )
        check_recording(_path(config), flat(config.args), config.seed)
        return config

    def source_files(self, config: RecordedRunConfig) -> dict[str, str]:
        path = _path(config)
        return {path.name: hashlib.sha256(read_bytes(path, None)).hexdigest()[:DIGITS]}

    def disk_bytes(self, config: RecordedRunConfig) -> int:
        return OF_A_RUN + 3 * _path(config).stat().st_size  # an event is longer than its line

    def headline(self, config: Mapping[str, Any]) -> str:
        return str(config["recorded"]["success"] or HEADLINE)

    def iterations(self, config: Mapping[str, Any]) -> None:
        return None
