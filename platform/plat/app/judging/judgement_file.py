"""Write the experiment file of a judgement: two versions of a command, one claim, and seeds until it is decided.

<home>/judgements/<name>.yaml
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from plat.app.deciding import own_plan
from plat.app.judging.versions import Version
from plat.app.sweeping import Sweep, check_sweep, make_home, open_store
from plat.errors import PlatError, SpecError
from plat.spec.expansion.decide import ERROR, LEAST, looks_of
from plat.spec.expansion.experiment import Experiment, load_experiment
from plat.store.disk import durable
from plat.store.disk.durable import locked
from plat.store.home import Home
from plat.store.mlflow.plan_record import ID_LENGTH, PlanRecord, read_plans, read_study, write_plan

OLD, NEW, CLAIM = "old", "new", "better"
NO_MARGIN = 1e-12  # a row then stops where the new version is probably not better at all
MOST = 20  # pairs


@dataclass(frozen=True)
class Design:
    """What is judged, fixed before the first run.

    metric   the name of a metric, whose last value counts
    lower    smaller values are better
    margin   a smaller improvement is none, in the unit of the metric; None: any improvement counts
    most     the most pairs
    reads    `script.metrics`: what reads the metrics; `text` reads JSON and text of the output
    gpus     GPUs of a run
    own_folder  each run works in a folder of its own (`script.own_folder`)
    """

    metric: str
    lower: bool = False
    margin: float | None = None
    most: int = MOST
    reads: Any = "text"
    gpus: int = 0
    own_folder: bool = False

    def checked(self) -> Design:
        """Return the design. Raises SpecError for a metric without a name, a margin or a number that cannot be used."""
        if not self.metric.strip():
            raise SpecError(
                "there is no metric", where="--metric", fix="name one that the command prints: --metric loss"
            )
        if self.margin is not None and not 0 < self.margin < float("inf"):
            what = f"{self.margin:g} is not the size of an improvement"
            raise SpecError(what, where="--margin", fix="give a number above 0, in the unit of the metric")
        if self.most < LEAST:
            what = f"{self.most} pairs cannot decide: the first look is at {LEAST}"
            raise SpecError(what, where="--most", fix=f"give {LEAST} or more")
        return self


def content(
    design: Design, old: Version, new: Version, seed: int = 0, error: float = ERROR, study: str = ""
) -> dict[str, Any]:
    """Return the experiment file as a dict; its claim is shown if the new version is better.

    seed   the first seed
    error  of a false *better*, one-sided
    study  to which the judgement belongs
    """
    first, second = (NEW, OLD) if design.lower else (OLD, NEW)
    sides = {OLD: old, NEW: new}
    return {
        "title": f"{new.name} against {old.name}",
        "base": {
            "trainer": "script",
            "script.metrics": design.reads,
            "script.metric": design.metric,
            "script.goal": "minimize" if design.lower else "maximize",
            **({"script.gpus": design.gpus} if design.gpus else {}),
            **({"script.own_folder": True} if design.own_folder else {}),
        },
        "matrix": {
            "version": {
                name: {
                    "script.command": side.command,
                    "script.folder": str(side.folder),
                    **({"script.files": files} if (files := side.files) else {}),
                }
                for name, side in sides.items()
            },
            "seed": [seed],
        },
        "decide": {
            "most": design.most,
            **({"margin": design.margin} if design.margin else {}),
            **({"error": error, "study": study} if study else {}),
        },
        "claims": [
            {
                "id": CLAIM,
                "says": f"The new version has a {'lower' if design.lower else 'higher'} {design.metric}.",
                "check": "mean_delta_positive",
                "pair": "version",
                "baseline": first,
                "treatment": second,
                "measure": {"metric": design.metric, "percent": False},
                "smallest": design.margin or NO_MARGIN,
            }
        ],
    }


def make_question(asked: Sweep, design: Design, old: Version, new: Version, study: str = "") -> Experiment:
    """Write the experiment file of a judgement, and its plan into the store, and return it loaded.

    The file's name is a hash of the question and of the code of both versions, so that the same command resumes. Its
    seeds are fresh: no run of either version has been made with them, and no judgement of its study. The
    error of a judgement in a study is fixed here, by what the study has found so far.

    Raises SpecError, and leaves no plan, if the two versions are the same, a run cannot work, or the study's error is
    too small for `most` pairs to show it.
    """
    home, uri = asked.home, asked.uri
    make_home(asked)
    open_store(home, uri)
    folder = home.judgements
    folder.mkdir(exist_ok=True)
    with locked(folder / "lock"):
        runs = _first_runs(folder, design, old, new)
        asks = json.dumps([asdict(design), study, runs], sort_keys=True, default=str)
        name = f"judge-{hashlib.sha256(asks.encode()).hexdigest()[:8]}"
        path, plans = folder / f"{name}.yaml", read_plans(uri)
        own = next((plan for plan in plans if plan.file == name), None)
        if own is not None:  # resumed; the versions may be in other folders now
            return _written(path, content(design, old, new, min(own.seeds), own.error, study))
        error, seed = _next_of(uri, study, design) if study else (ERROR, 0)
        made = _written(path, content(design, old, new, seed, error, study))
        while seen := _seen(home, uri, made, plans):
            seed = 1 + max(seen)
            made = _written(path, content(design, old, new, seed, error, study))
        try:
            check_sweep(asked, [made], [])
        except PlatError:
            path.unlink()
            raise
        write_plan(home, uri, made, own_plan(made), lambda plans: None)
        return made


def _seen(home: Home, uri: str, experiment: Experiment, plans: Sequence[PlanRecord]) -> set[int]:
    """Return seeds that cannot be fresh: those of plans with runs in common, or of runs that are done already."""
    from plat.store.many_runs import states
    from plat.store.mlflow.stored_runs import stored_runs

    own = {run.id: run.axes["seed"] for run in experiment.runs}
    short = {run_id[:ID_LENGTH] for run_id in own}
    seeds = {seed for plan in plans if short & set(plan.runs) for seed in plan.seeds}
    done = {run_id for run_id, state in states(home, own).items() if state.outcome is not None}
    seen = done | (set(stored_runs(home, uri, list(own))) & own.keys())
    return seeds | {own[run_id] for run_id in seen}


def _first_runs(folder: Path, design: Design, old: Version, new: Version) -> list[str]:
    """Return the ids of the first run of both versions. Raises SpecError if they are the same."""
    path = folder / f"probe-{os.getpid()}.yaml"
    try:
        runs = [run.id for run in _written(path, content(design, old, new)).runs if run.axes["seed"] == 0]
    finally:
        path.unlink(missing_ok=True)
    if len(set(runs)) < len((OLD, NEW)):
        what = f"{new.name} and {old.name} are the same: equal commands, and equal files that they read"
        fix = "edit a file that the command names or imports, or name another version with --against"
        raise SpecError(what, where="plat judge", fix=fix)
    return runs


def _next_of(uri: str, study: str, design: Design) -> tuple[float, int]:
    """Return the error and the first seed of the next judgement of a study."""
    from plat_analysis.statistics.online import next_level
    from plat_analysis.statistics.sequential import Plan

    before = read_study(uri, study)
    error = next_level([word == "better" for _, word in before])
    looks = looks_of(design.most)
    if Plan(looks, error).first_look(1) is None:
        level = f"judgement {len(before) + 1} of study {study} has an error of {error:.2g}"
        fix = f"give more pairs, such as --most {design.most + 6}, or begin another study"
        raise SpecError(f"{level}, which {design.most} pairs cannot show", where="--most", fix=fix)
    return error, 1 + max((seed for plan, _ in before for seed in plan.seeds), default=-1)


def _written(path: Path, made: dict[str, Any]) -> Experiment:
    import yaml

    durable.write(path, yaml.safe_dump(made, sort_keys=False, allow_unicode=True, width=110).encode())
    return load_experiment(path)
