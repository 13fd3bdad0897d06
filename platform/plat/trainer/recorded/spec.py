"""The specification of the trainer `recorded`."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from plat.errors import RunError, SpecError
from plat.plain_files import open_regular, parse_json, read_bytes
from plat.plugins.plugin_code import DIGITS
from plat.trainer.api import Outcome, RunIO, Trainer
from plat.trainer.config_fields import number
from plat.trainer.script.command import flat
from plat.words.metric_names import SUCCESS
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
        return str(config["recorded"]["success"] or SUCCESS)

    def iterations(self, config: Mapping[str, Any]) -> None:
        return None


# Write and read the file of one recorded run: a line with its values, then a line of metrics for each step.
#
# The name of a file is a hash of the values and the seed, so the file of a run is found without reading the others.

SUFFIX = ".jsonl"
Scalar = str | int | float | bool | None
History = Mapping[int, Mapping[str, float]]  # step -> metric -> number


def recording_path(folder: Path, values: Mapping[str, Any], seed: int) -> Path:
    """Return the path of the recording with these values and this seed; there may be no such file."""
    alike = {name: _plain(value) for name, value in values.items()}
    text = json.dumps([alike, seed], sort_keys=True)
    return folder / (hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()[:16] + SUFFIX)


def recording_text(values: Mapping[str, Scalar], seed: int, about: Mapping[str, Any], history: History) -> str:
    """Return the content of a recording. `about`: where it comes from, for a reader of the file."""
    lines: list[Any] = [{"values": dict(values), "seed": seed, **about}]
    lines += [{"step": step, "metrics": dict(history[step])} for step in sorted(history)]
    return "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines)


def check_recording(path: Path, values: Mapping[str, Any], seed: int) -> None:
    """Raise SpecError if there is no recording at this path, or if it is one of other values."""
    shown = ", ".join(f"{name}={value}" for name, value in {**values, "seed": seed}.items())
    try:
        with open_regular(path) as file:
            first = parse_json(file.readline())
    except FileNotFoundError:
        fix = "leave these values out of the matrix (exclude), or import the run that has them"
        raise SpecError(f"there is no recording of {shown}", where="recorded.folder", fix=fix) from None
    except (OSError, ValueError) as error:
        raise SpecError(f"the recording of {shown} is damaged: {error}", where=f"{path}:1", fix=AGAIN) from None
    if not isinstance(first, dict) or not isinstance(first.get("values"), dict) or "seed" not in first:
        raise SpecError(f"the recording of {shown} has no values", where=f"{path}:1", fix=AGAIN)
    if recording_path(path.parent, first["values"], first["seed"]) != path:
        raise SpecError(f"the recording of {shown} has other values", where=f"{path}:1", fix=AGAIN)


def recorded_metrics(path: Path) -> Iterator[tuple[int, dict[str, float]]]:
    """Yield step and metrics of every line after the first. Raises RunError, with the line, for a damaged file."""
    try:
        lines = read_bytes(path, None).splitlines()
    except OSError as error:
        raise RunError(f"the recording cannot be read: {error}", where=str(path), fix=AGAIN) from None
    for place, line in enumerate(lines[1:], start=2):
        try:
            logged = parse_json(line)
            yield logged["step"], {name: float(value) for name, value in logged["metrics"].items()}
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise RunError(f"the recording is damaged: {error!r}", where=f"{path}:{place}", fix=AGAIN) from None


AGAIN = "give the command `plat import` again, with --force"


def _plain(value: Any) -> Any:
    """Return a value so that equal numbers have one spelling: 1.0 is 1."""
    return int(value) if isinstance(value, float) and value.is_integer() else value
