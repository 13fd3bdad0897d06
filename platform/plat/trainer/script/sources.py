"""Find what a script logs into: the sources that `script.metrics` names, and how the script is told where they are."""

from __future__ import annotations

from pathlib import Path

from plat import script_log
from plat.trainer.script.config import KINDS, MLFLOW, TENSORBOARD, TRACKIO, WANDB, ScriptConfig, sources_of
from plat.trainer.script.readers import mlflow, tensorboard, wandb
from plat.trainer.script.readers.logged import Refuse, Source
from plat.trainer.script.readers.metrics_file import MetricsFile, MetricsFiles
from plat.trainer.script.readers.trackio import TrackioFiles

OF_PLAT = "metrics.jsonl"  # below PLAT_RUN_DIR: what `plat.log` writes
FOLDER = {WANDB: "wandb", TRACKIO: "trackio"}  # below PLAT_RUN_DIR


def remove_old(script: ScriptConfig, files: Path) -> None:
    """Remove what an earlier attempt has logged: what counts of it is in the events of that attempt."""
    old = [files / OF_PLAT]
    for name in sources_of(script):
        if name == TENSORBOARD:
            old += files.rglob(tensorboard.PATTERN)
        elif name == WANDB:
            old += files.rglob(wandb.PATTERN)
        elif name == TRACKIO:
            old += (path for path in (files / FOLDER[TRACKIO]).rglob("*") if path.is_file())
        elif name not in KINDS:
            old += files.glob(name)
    for path in old:
        path.unlink(missing_ok=True)


def prepared(script: ScriptConfig, files: Path, cache: Path) -> dict[str, str | None]:
    """Prepare the sources, and return variables of the environment for their clients: None removes one.

    Raises RunError if MLflow cannot make an empty store.
    """
    names, variables = sources_of(script), dict[str, str | None]()
    if MLFLOW in names:
        variables |= mlflow.empty_store(files, cache)
    if WANDB in names:
        (files / FOLDER[WANDB]).mkdir(exist_ok=True)
        variables |= {"WANDB_MODE": "offline", "WANDB_DIR": str(files)}
    if TRACKIO in names:
        variables |= {"TRACKIO_DIR": str(files / FOLDER[TRACKIO])}
    return variables | {"PLAT_METRICS": str(files / OF_PLAT)}


def opened(script: ScriptConfig, files: Path, refuse: Refuse, first: int) -> list[Source]:
    """Return the readers of all sources but the output.

    refuse  says what cannot be read
    first   the number of the first line without a step
    """
    found: list[Source] = [MetricsFile(files / OF_PLAT, script.step, refuse, first=first, time_key=script_log.WRITTEN)]
    for name in sources_of(script):
        if name == TENSORBOARD:
            found.append(tensorboard.EventFiles(files, refuse))
        elif name == MLFLOW:
            found.append(mlflow.MlflowFile(files / mlflow.NAME))
        elif name == WANDB:
            found.append(wandb.WandbFiles(files, refuse))
        elif name == TRACKIO:
            found.append(TrackioFiles(files / FOLDER[TRACKIO], refuse))
        elif name not in KINDS:
            found.append(
                MetricsFiles(
                    files, name, lambda path, known: MetricsFile(path, script.step, refuse, known, first=first)
                )
            )
    return found
