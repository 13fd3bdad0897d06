"""Replay a recorded run: log what its file has."""

from __future__ import annotations

from pathlib import Path

from plat.errors import RunError
from plat.trainer.api import Outcome, RunIO
from plat.trainer.recorded.recording import AGAIN, recorded_metrics, recording_path
from plat.trainer.recorded.spec import RecordedRunConfig
from plat.trainer.script.command import flat
from plat.words.outcomes import FINISHED


def train(config: RecordedRunConfig, io: RunIO) -> Outcome:
    """Log the metrics of the recording with these values. Raises RunError if it is missing, damaged or empty."""
    path = recording_path(Path(config.recorded.folder), flat(config.args), config.seed)
    step = None
    for step, metrics in recorded_metrics(path):
        io.log(step, metrics)
    if step is None:
        raise RunError("the recording has no metrics", where=str(path), fix=AGAIN)
    return Outcome(FINISHED)
