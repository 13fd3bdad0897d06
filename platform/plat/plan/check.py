"""What a trainer itself checks of the runs that are planned or about to be submitted, where that takes seconds."""

from __future__ import annotations

from collections.abc import Iterable

from plat.errors import SpecError
from plat.spec.experiment import Run, config_object
from plat.trainer.api import find_trainer
from plat.user_code import user_code


def check_runs(runs: Iterable[Run]) -> None:
    """Ask each run's trainer, once for each run; SpecError names the first run that cannot run."""
    different = {run.id: run for run in runs}.values()
    trainers = {name: find_trainer(name) for name in {run.trainer for run in different}}  # not once for each run
    for run in different:
        spec = trainers[run.trainer]
        if spec.load_check is None:
            continue
        with user_code(f"`load_check` of the trainer {spec.name!r} failed"):
            check = spec.load_check()
            try:
                check(config_object(run, spec))
            except SpecError as error:
                error.what = f"{run.name}: {error.what}"
                raise
