"""Read runs of Weights & Biases: logs of offline runs, or CSV files that its page exports."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from plat.app.recorded.choice import Choice
from plat.app.recorded.foreign_run import ForeignRun, flat_values, merged
from plat.app.recorded.wandb_export import read_exports
from plat.errors import SpecError
from plat.extras import require_extra
from plat.trainer.script.readers.logged import Logged
from plat.trainer.script.readers.wandb import PATTERN, history_of, parsed
from plat.trainer.script.readers.wandb_log import WandbLog


@dataclass
class _Run:
    """What the logs of one run say, in the order of the records."""

    place: str
    name: str = ""
    start: float = 0.0
    config: dict[str, Any] = field(default_factory=dict)
    logged: list[Logged] = field(default_factory=list)
    finished: bool = False


def read_wandb(sources: Sequence[str], choice: Choice) -> list[ForeignRun]:
    """Return the runs of logs of offline runs, in the order of their start, or of exported CSV files.

    A run with several logs, because it was resumed, is one run. Raises SpecError if there is no log, if one is damaged,
    or if the package wandb is missing.
    """
    if all(source.endswith(".csv") for source in sources):
        return read_exports([Path(source) for source in sources])
    require_extra("wandb", "plat import wandb", "the command line")
    runs: dict[str, _Run] = {}
    for path in dict.fromkeys(path.resolve() for source in sources for path in _logs(Path(source))):
        _read(path, runs)
    found = []
    for run in sorted(runs.values(), key=lambda run: (run.start, run.name)):
        history, replaced = merged(run.logged)
        found.append(ForeignRun(run.name, flat_values(run.config), history, run.place, run.finished, replaced))
    return found


def _logs(source: Path) -> list[Path]:
    fix = "name a folder with offline-run-*/run-ID.wandb, or CSV files of W&B's page"
    if not source.exists():
        raise SpecError("there is no such file or folder", where=str(source), fix=fix)
    found = sorted(source.rglob(PATTERN)) if source.is_dir() else [source]
    if not found:
        raise SpecError("the folder has no log of a W&B run", where=str(source), fix=fix)
    return found


def _read(path: Path, runs: dict[str, _Run]) -> None:
    """Add what one log says to the run that it names."""
    run = _Run(str(path), path.stem)
    for record in WandbLog(path).records():
        kind = record.WhichOneof("record_type")
        if kind == "run":
            run = runs.setdefault(record.run.run_id, run)
            name, start = record.run.display_name, record.run.start_time
            run.name = f"{name} ({record.run.run_id})" if name else record.run.run_id
            run.start = run.start or start.seconds + start.nanos / 1e9
            run.finished = False
            _configure(run.config, record.run.config)
        elif kind == "config":
            _configure(run.config, record.config)
        elif kind == "history":
            run.logged.append(history_of(record.history))
        elif kind == "exit":
            run.finished = record.exit.exit_code == 0
    if not run.start:  # the log ends before it names its run
        runs.setdefault(path.stem, run)


def _configure(config: dict[str, Any], change: Any) -> None:
    for item in change.update:
        *above, key = item.nested_key or [item.key]
        place = config
        for part in above:
            if not isinstance(place.get(part), dict):
                place[part] = {}
            place = place[part]
        place[key] = parsed(item.value_json)
    for item in change.remove:
        config.pop(item.key, None)
    config.pop("_wandb", None)
