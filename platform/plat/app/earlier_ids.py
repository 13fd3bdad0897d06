"""Take the runs that a home has done under other ids: those of plat 0.4, and those of code that has changed since.

plat 0.4 hashed the bytes of a script's files. A home may have such a run, of files whose bytes have not changed: then
it is the same run, and keeps its id. A run of other code is another run, and is only taken where that is asked for.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from plat.app.messages import tell
from plat.planning.changed_code import made_before
from plat.store.home import Home
from plat.units import are, counted

if TYPE_CHECKING:
    from plat.spec.expansion.experiment import Experiment, Run


def with_earlier_ids(experiments: Sequence[Experiment], home: Home) -> list[Experiment]:
    """Return the experiments; a run that this home has done only under its earlier id has that id."""
    return [_with_runs(file, [_as_in_0_4(run, home) for run in file.runs]) for file in experiments]


def with_code_of_runs(experiments: Sequence[Experiment], home: Home) -> list[Experiment]:
    """Return the experiments; a missing run that this home has done with other code is replaced by the newest such run.

    Where an experiment then has runs of different code, that is said on stderr.
    """
    changed = []
    for file in experiments:
        earlier = made_before(file.runs, home)
        if earlier:
            codes = {str(run.identity.get("plugins")) for run in earlier.values()}
            versions = f" (of {len(codes)} versions)" if len(codes) > 1 else ""
            number = len(earlier)
            tell(
                f"note: {file.path}: {counted(number, 'run')} {are(number)} of earlier code{versions}, "
                f"{len(file.runs) - number} of today's or missing"
            )
        runs = [
            _under(run, earlier[run.id].id, earlier[run.id].identity) if run.id in earlier else run for run in file.runs
        ]
        changed.append(_with_runs(file, runs))
    return changed


def _with_runs(experiment: Experiment, runs: Sequence[Run]) -> Experiment:
    """Return the experiment with these in place of its runs, in the same order."""
    ids = {before.id: run.id for before, run in zip(experiment.runs, runs, strict=True) if before.id != run.id}
    if not ids:
        return experiment
    cells = [(labels, ids.get(run_id, run_id)) for labels, run_id in experiment.cells]
    return replace(experiment, runs=list(runs), cells=cells)


def _as_in_0_4(run: Run, home: Home) -> Run:
    """Return the run under the id of plat 0.4 if the home has done it only so, else the run itself."""
    if run.earlier is None or home.run(run.id).result.exists() or not home.run(run.earlier[0]).result.exists():
        return run
    return _under(run, *run.earlier)


def _under(run: Run, run_id: str, identity: dict[str, Any]) -> Run:
    return replace(run, id=run_id, name=run.name.removesuffix(run.id[:8]) + run_id[:8], identity=identity)
