"""Read the reference of an experiment file: the runs of its bundle, by the runs of the report that they match."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from plat.errors import BundleError
from plat.plain_files import parse_yaml
from plat.spec.expansion.experiment import Experiment
from plat.spec.expansion.run import Run
from plat.store.bundle.bundle_frames import BundleResults, read_results
from plat.store.bundle.format import MANIFEST
from plat_analysis.data.results import Results, RunView
from plat_analysis.reference.matching import SEEDS, SHOWN, Origin, difference, differing_settings

HELDOUT = ("heldout/success", "heldout/final_success", "heldout/base_success")
SEED_LINE = re.compile(r"^seed: .*\n", re.MULTILINE)


class Reference:
    """Hold the runs of the bundle that differ in seed and build only from some run of the experiment.

    results  the values of those runs
    problem  why runs of the report have none; "" where all have some
    """

    def __init__(self, experiment: Experiment, bundle: BundleResults) -> None:
        origins = _origins(bundle)
        by_settings: dict[str, list[str]] = {}
        for run_id, origin in origins.items():
            by_settings.setdefault(origin.settings, []).append(run_id)
        runs: dict[str, Run] = {}
        self._beside: dict[str, list[str]] = {}
        reasons: dict[str, int] = {}
        for own in experiment.runs:
            reason, ids = _comparable(own, by_settings, origins)
            self._beside[own.id] = ids
            runs |= {run_id: _run(run_id, own, bundle, origins[run_id]) for run_id in ids}
            if reason:
                reasons[reason] = reasons.get(reason, 0) + 1
        self.results = Results(bundle.frames, replace(experiment, runs=list(runs.values()), cells=[]))
        self._views = {view.id: view for view in self.results.runs}
        self.problem = ""
        if reasons:
            others = " or similar" if len(reasons) > 1 else ""
            of = f"({sum(reasons.values())} of {len(experiment.runs)} runs)"
            self.problem = f"{max(reasons, key=lambda reason: reasons[reason])}{others} {of}"

    def beside(self, run: Run) -> list[RunView]:
        """Return the reference runs of a run's settings, itself included; [] if one of them cannot be compared."""
        return [self._views[run_id] for run_id in self._beside[run.id]]


def reference_of(experiment: Experiment, metrics: Iterable[str] = HELDOUT, tables: bool = False) -> Reference | None:
    """Return the reference of an experiment file; None if it names none, or the folder does not exist.

    metrics  read besides the headline
    tables   read the logged tables, too

    Raises BundleError if the bundle is damaged.
    """
    folder = experiment.reference_folder
    if folder is None or not folder.exists():
        return None
    headlines = {run.headline for run in experiment.runs}
    try:
        status = (folder / MANIFEST).stat()
        stamp = (status.st_size, status.st_mtime_ns)
    except OSError:
        stamp = (0, 0)
    try:
        bundle = _read(folder.absolute(), frozenset({*metrics, *headlines}), tables, stamp)
    except BundleError as error:
        error.fix = f"{error.fix}; or remove `reference:` from {experiment.path.name}"
        raise
    return Reference(experiment, bundle)


def reference_problem(experiment: Experiment) -> str:
    """Return why some or all runs cannot be compared with the reference; "" if they can, or the file names none.

    Needs no results. Raises BundleError if the bundle is damaged.
    """
    folder = experiment.reference_folder
    if folder is not None and not folder.exists():
        return f"no comparison with reference results: there is no {experiment.reference}"
    reference = reference_of(experiment)
    return f"no comparison with {experiment.reference}: {reference.problem}" if reference and reference.problem else ""


@lru_cache(maxsize=4)
def _read(folder: Path, metrics: frozenset[str], tables: bool, stamp: tuple[int, int]) -> BundleResults:
    """Read a bundle, cached for all tables of a report; `stamp` changes with the bundle."""
    return read_results(folder, metrics, tables=tables)


def _origins(bundle: BundleResults) -> dict[str, Origin]:
    """Return run id -> the parts of the id. Configs that differ in the line of the seed only are parsed once."""
    parsed: dict[str, dict[str, Any]] = {}
    origins = {}
    for run_id, text in bundle.configs.items():
        masked = SEED_LINE.sub("", text)
        if masked not in parsed:
            parsed[masked] = parse_yaml(masked)
        seed = (SEED_LINE.search(text) or [""])[0]
        origins[run_id] = Origin.of_record(bundle.metas[run_id], parsed[masked] | (parse_yaml(seed) or {}))
    return origins


def _comparable(
    own: Run, by_settings: Mapping[str, Sequence[str]], origins: Mapping[str, Origin]
) -> tuple[str, list[str]]:
    """Return (why there are none, the ids of the runs that can be compared with a run).

    One incompatible run excludes all runs of its settings: two kinds are never mixed.
    """
    origin = Origin.of_run(own)
    ids = by_settings.get(origin.settings, ())
    differences = dict.fromkeys(text for run_id in ids if (text := difference(origin, origins[run_id])))
    if differences:
        return f"it has {next(iter(differences))}", []
    return ("", list(ids)) if ids else (_nearest(origin, origins), [])


def _nearest(own: Origin, origins: Mapping[str, Origin]) -> str:
    """Return the settings of the run with the fewest differences."""
    if not origins:
        return "it has no runs"
    distinct = {origin.settings: origin for origin in origins.values()}
    lists = [(differing_settings(own, origin), origin) for origin in distinct.values()]
    keys, nearest = min(lists, key=lambda pair: len(pair[0]))
    if (nearest.trainer, nearest.version) != (own.trainer, own.version):
        return f"it has {difference(own, nearest)}"
    if len(keys) > SHOWN:
        keys = [*keys[:SHOWN], "..."]
    return f"it has no run of these settings (the nearest has {'; '.join(keys)})"


def _run(run_id: str, own: Run, bundle: BundleResults, origin: Origin) -> Run:
    """Return a run of the bundle in the form of a run of the report."""
    axes = {axis: label for axis, label in own.axes.items() if axis not in SEEDS}
    meta = bundle.metas[run_id]
    return replace(own, id=run_id, name=str(meta.get("name", run_id)), axes=axes, config=dict(origin.config))
