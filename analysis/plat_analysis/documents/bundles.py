"""Reports of the experiments in the repository's bundles, made from these alone: no home, no store, no training.

A report may be that of a part of the runs: with overrides of the matrix beside those of the bundle.

`docs/results/` is a bundle, and any other folder in `docs/` may be one (files that were run under different overrides
cannot share one). A file whose runs were done for others needs no bundle: its runs are looked for in all of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from plat.errors import SpecError
from plat.spec.experiment import Experiment, load_experiment
from plat.spec.yaml_reader import read
from plat.store.bundle.format import MANIFEST
from plat.store.bundle.frames import BundleResults, experiments_in, read_results, runs_in
from plat.store.mlflow.frames import Frames
from plat_analysis.report.build import build_report
from plat_analysis.report.report import Report

if TYPE_CHECKING:
    import pandas as pd

REFERENCE = "results"
EXPORT = "run `plat sweep` and `plat export` again with this version of plat"


class Bundles:
    """`bundles.report(name, overrides)` for every experiment that one of the bundles holds; each is built once."""

    def __init__(self, root: Path, folder: str = "docs") -> None:
        self.root, self.folder = root, root / folder
        self._reports: dict[tuple[str, ...], Report] = {}
        self._results: dict[Path, BundleResults] = {}

    def report(self, name: str, overrides: Sequence[str] = ()) -> Report:
        """The report of an experiment file of this repository, or of a part of its runs (`matrix.seed=[0]`).

        SpecError where no bundle holds its runs, BundleError where one is damaged.
        """
        key = (name, *overrides)
        if key not in self._reports:
            self._reports[key] = self._built(name, overrides)
        return self._reports[key]

    def folders(self) -> dict[str, Path]:
        """Name of an experiment -> the bundle that was exported for it, the last one by name."""
        return {name: folder for folder in self._folders() for name in experiments_in(folder)}

    def claims_of(self, name: str) -> bool:
        """Whether the experiment file of this name in the repository claims anything; no run is made for that."""
        data = read(self._path_of(name)).data
        return isinstance(data, dict) and bool(data.get("claims"))

    def _path_of(self, name: str) -> Path:
        """The experiment file of this name; SpecError where there is none."""
        paths = sorted((self.root / "experiments").rglob(f"{name}.yaml"))
        if not paths:
            raise SpecError(f"there is no experiment file {name}.yaml", where=str(self.root / "experiments"))
        return paths[0]

    def _built(self, name: str, overrides: Sequence[str]) -> Report:
        path, folder = self._path_of(name), self.folders().get(name)
        if folder is None:
            experiment = load_experiment(path, list(overrides))
            frames = self._from_all(experiment)
        else:
            results = self._results_in(folder)
            keys = {override.partition("=")[0] for override in overrides}
            kept = [override for override in results.overrides if override.partition("=")[0] not in keys]
            experiment, frames = load_experiment(path, [*kept, *overrides]), results.frames
            _check_wanted(experiment, set(results.experiments[name]), part=bool(overrides), where=self.folder)
        reference = experiment.reference_folder
        if reference is None or not reference.exists() or (folder is not None and reference.samefile(folder)):
            experiment = replace(experiment, reference=None)  # a bundle is not compared with itself
        report = build_report(frames, experiment)
        for failure in report.failures:
            raise SpecError(failure.render(), where=str(path))
        return replace(report, experiment=replace(experiment, path=path.relative_to(self.root)))

    def _from_all(self, experiment: Experiment) -> Frames:
        """The results of an experiment's runs from whatever bundles hold them; SpecError where one is in none."""
        missing, parts = {run.id for run in experiment.runs}, []
        reference = self.folder / REFERENCE  # before others: one of them has some of its runs from another make of CPU
        for folder in sorted(self._folders(), key=lambda folder: folder != reference):
            if here := missing & runs_in(folder):
                parts.append(_only(self._results_in(folder).frames, here))
                missing -= here
        if missing:
            raise SpecError(
                f"{len(missing)} of {len(experiment.runs)} runs of {experiment.name!r} are in no bundle",
                where=str(self.folder),
                mend=f"{EXPORT}, or choose a part of the runs that is there",
            )
        runs, metrics, tables = (
            _together([getattr(part, name) for part in parts]) for name in ("runs", "metrics", "tables")
        )
        return Frames(runs, metrics, tables)

    def _results_in(self, folder: Path) -> BundleResults:
        if folder not in self._results:
            self._results[folder] = read_results(folder)
        return self._results[folder]

    def _folders(self) -> list[Path]:
        return [manifest.parent for manifest in sorted(self.folder.rglob(MANIFEST))]


def _check_wanted(experiment: Experiment, exported: set[str], part: bool, where: Path) -> None:
    """SpecError where the runs of a file are not those that were exported for it, or a part of them is none."""
    wanted = {run.id for run in experiment.runs}
    strangers = wanted - exported if part else exported - wanted
    if strangers:
        raise SpecError(
            f"{len(strangers)} of {len(wanted if part else exported)} runs "
            f"{'are not in the bundle' if part else 'in the bundle are not those of ' + experiment.path.name}: "
            "the file, the trainer or a base model has changed since they were exported",
            where=str(where),
            mend=EXPORT,
        )


def _only(frames: Frames, runs: set[str]) -> Frames:
    """The rows of these runs."""
    kept = (frame[frame["run_id"].isin(runs)] for frame in (frames.runs, frames.metrics, frames.tables))
    of_runs, metrics, tables = kept
    return Frames(of_runs, metrics, tables)


def _together(parts: Sequence[pd.DataFrame]) -> pd.DataFrame:
    """Frames of different runs as one, in the order of run ids."""
    import pandas as pd

    return pd.concat(parts, ignore_index=True).sort_values("run_id", kind="stable", ignore_index=True)
