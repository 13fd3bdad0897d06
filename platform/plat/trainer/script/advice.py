"""Say why nothing was read of a script, with the setting that reads what it has logged."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from plat.characters import as_lines, escaped
from plat.errors import RunError
from plat.trainer.script.config import KINDS, MLFLOW, TENSORBOARD, TEXT, TRACKIO, WANDB, ScriptConfig, sources_of
from plat.trainer.script.readers import tensorboard, wandb
from plat.trainer.script.readers.metrics_file import MetricsFile
from plat.trainer.script.readers.text import Text, plain
from plat.trainer.script.source_files import OF_PLAT
from plat.words.outcomes import NO_METRIC

SHOWN = 3  # lines of the output
WIDE = 120  # characters of one
_COUNTED = re.compile(r"(?<![^_-])\d+([-_:.T]\d+)*$")  # `0` of version_0, a date, a time
MOST = 2000  # files that are looked at
HOW_TO_LOG = {  # script.metrics -> advice
    TEXT: "print lines such as `step 1: loss 0.5`, or describe yours with script.patterns",
    TENSORBOARD: "write the event files of TensorBoard below PLAT_RUN_DIR",
    MLFLOW: "log with MLflow's client, and do not set another tracking URI than MLFLOW_TRACKING_URI",
    WANDB: "log with W&B's client, and set no other `dir` and `mode`",
    TRACKIO: "log with trackio, and set no other TRACKIO_DIR",
}


def nothing_read(script: ScriptConfig, files: Path, since: float, tail: Iterable[bytes], notes: list[str]) -> RunError:
    """Return the error for a script that ended well and of which nothing was read.

    since   when it was started, in seconds since 1970
    tail    the last lines of its output
    notes   what could not be read
    """
    lines = [escaped(as_lines(plain(line.decode("utf-8", "replace")).strip())) for line in tail]
    lines = [line if len(line) <= WIDE else f"{line[:WIDE]}..." for line in lines if line]
    shown = f"; its last line{'s' * (len(lines) > 1)}: {' | '.join(lines[-SHOWN:])}" if lines else ""
    what = NO_METRIC + "".join(f"; {note}" for note in notes[:SHOWN]) + shown
    proposed = [*_of_text(lines), *_of_files(script, files, since)]
    names = sources_of(script)
    ways = [HOW_TO_LOG.get(name, f"write lines with numbers into the file {name} below PLAT_RUN_DIR") for name in names]
    if not names:
        ways = ['print lines of JSON, such as {"step": 1, "loss": 0.5}, or call plat.log(step, loss=0.5)']
    return RunError(what, fix="; or ".join([*proposed, *ways]))


def moved(script: ScriptConfig, files: Path, since: float) -> RunError | None:
    """Return the error for a resumed script that logged into a folder that `script.metrics` does not name.

    Loggers count up: after `version_0` they write into `version_1`. None if it did not.
    """
    names = [name for name in sources_of(script) if name not in KINDS]
    read = {path for name in names for path in files.glob(name)}
    for path in written(files, since):
        name = next((name for name in names if Path(name).name == path.name and path not in read), None)
        if name is not None:
            other = path.relative_to(files)
            what = f"the resumed script logged into {other.as_posix()}, and nothing into {name}"
            return RunError(what, fix=f"script.metrics: {with_any_number(other)}")
    return None


def with_any_number(path: Path) -> str:
    """Return a pattern for a file whose folders may have other numbers in the next attempt, such as `version_0`."""
    folders = [_COUNTED.sub("*", part) for part in path.parts[:-1]]
    return Path(*folders, path.name).as_posix()


def _of_text(lines: list[str]) -> Iterator[str]:
    """Yield the setting that reads lines of the output."""
    reader = Text("", lambda what, where, fix: None)
    for line in reversed(lines):
        found = [*reader.read(line), *reader.end()]
        if names := ", ".join(name for logged in found for name in logged.metrics):
            yield f"script.metrics: text reads {names} from: {line}"
            return


def _of_files(script: ScriptConfig, files: Path, since: float) -> Iterator[str]:
    """Yield the settings that read files which the script has written."""
    for folder, is_of_run in ((files, True), (Path(script.folder), False)):
        seen: set[str] = set()
        for path in written(folder, since):
            kind = kind_of(path)
            name = kind if kind in KINDS else path.name
            if not kind or name in seen or (is_of_run and (path.name == OF_PLAT or name in sources_of(script))):
                continue
            seen.add(name)
            below = path.relative_to(folder)
            if is_of_run:
                yield f"script.metrics: {kind if kind in KINDS else with_any_number(below)} reads {below.as_posix()}"
            else:
                how = f"script.own_folder: true gives each run a folder of its own, with script.metrics: {name}"
                yield f"it has written {path}, which is shared by all runs: {how}"


def written(folder: Path, since: float) -> list[Path]:
    """Return files below a folder that were written since a time."""
    found = []
    for count, path in enumerate(folder.rglob("*")):
        if count > MOST:
            break
        try:
            if path.is_file() and path.stat().st_mtime >= since and "plat-home" not in path.parts:
                found.append(path)
        except OSError:
            continue
    return sorted(found)


def kind_of(path: Path) -> str:
    """Return the source that a file is of, "file" for one with metrics, "" for any other."""
    if path.match(tensorboard.PATTERN):
        return TENSORBOARD
    if path.match(wandb.PATTERN):
        return WANDB
    if path.name == "mlflow.db" or "mlruns" in path.parts:
        return MLFLOW
    if path.suffix not in (".csv", ".tsv", ".jsonl", ".json") or path.name == "config.json":
        return ""
    try:
        found = list(MetricsFile(path, "", lambda what, where, fix: None).new(is_last=True))
    except RunError:
        return ""
    return "file" if found else ""
