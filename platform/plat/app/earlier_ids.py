"""Keep the ids of done runs that plat 0.4 has made, where today's rules give the same run another one.

plat 0.4 hashed the bytes of a script's files. A home may have such a run, of files whose bytes have not changed: then
it is the same run, and keeps its id.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from plat.store.home import Home

if TYPE_CHECKING:
    from plat.spec.expansion.experiment import Experiment, Run


def with_earlier_ids(experiments: Sequence[Experiment], home: Home) -> list[Experiment]:
    """Return the experiments; a run that this home has done only under its earlier id has that id."""
    return [_with_earlier_ids(experiment, home) for experiment in experiments]


def _with_earlier_ids(experiment: Experiment, home: Home) -> Experiment:
    kept = {run.id: _as_made(run, home) for run in experiment.runs if run.earlier is not None}
    if all(run_id == run.id for run_id, run in kept.items()):
        return experiment
    ids = {run_id: run.id for run_id, run in kept.items()}
    return replace(
        experiment,
        runs=[kept.get(run.id, run) for run in experiment.runs],
        cells=[(labels, ids.get(run_id, run_id)) for labels, run_id in experiment.cells],
    )


def _as_made(run: Run, home: Home) -> Run:
    """Return the run under its earlier id if the home has done it so, else the run itself."""
    if run.earlier is None or home.run(run.id).result.exists() or not home.run(run.earlier[0]).result.exists():
        return run
    run_id, identity = run.earlier
    return replace(run, id=run_id, name=run.name.removesuffix(run.id[:8]) + run_id[:8], identity=identity)
