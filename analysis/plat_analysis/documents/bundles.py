"""Reports of the experiments in the repository's bundles, made from these alone: no home, no store, no training.

`docs/results/` is a bundle, and any other folder in `docs/` may be one (files that were run under different overrides
cannot share one).
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from plat.errors import SpecError
from plat.spec.experiment import load_experiment
from plat.store.bundle.format import MANIFEST
from plat.store.bundle.frames import BundleResults, experiments_in, read_results
from plat.suggest import mend
from plat_analysis.report.build import build_report
from plat_analysis.report.report import Report

EXPORT = "run `plat sweep` and `plat export` again with this version of plat"


class Bundles:
    """`bundles.report(name)` for every experiment that one of the bundles holds; each is read and built once."""

    def __init__(self, root: Path, folder: str = "docs") -> None:
        self.root, self.folder = root, root / folder
        self._reports: dict[str, Report] = {}
        self._results: dict[Path, BundleResults] = {}

    def report(self, name: str) -> Report:
        """The report of an experiment file of this repository; SpecError where no bundle holds its runs, BundleError
        where one is damaged."""
        if name not in self._reports:
            self._reports[name] = self._built(name)
        return self._reports[name]

    def _built(self, name: str) -> Report:
        results = self._results_of(name)
        paths = sorted((self.root / "experiments").rglob(f"{name}.yaml"))
        if not paths:
            raise SpecError(f"there is no experiment file {name}.yaml", where=str(self.root / "experiments"))
        experiment = replace(load_experiment(paths[0], results.overrides), reference=None)
        strangers = set(results.experiments[name]) - {run.id for run in experiment.runs}
        if strangers:
            raise SpecError(
                f"{len(strangers)} of {len(results.experiments[name])} runs in the bundle are not those of "
                f"{paths[0].name}: the file, the trainer or a base model has changed since they were exported",
                where=str(self.folder),
                mend=EXPORT,
            )
        report = build_report(results.frames, replace(experiment, path=paths[0].relative_to(self.root)))
        for failure in report.failures:
            raise SpecError(failure.render(), where=str(paths[0]))
        return report

    def _results_of(self, name: str) -> BundleResults:
        """The bundle that holds an experiment; the others are not read."""
        folders = {
            experiment: manifest.parent
            for manifest in sorted(self.folder.rglob(MANIFEST))
            for experiment in experiments_in(manifest.parent)
        }
        if name not in folders:
            raise SpecError(
                f"no bundle holds results of {name!r}", where=str(self.folder), mend=mend(name, folders, "results")
            )
        folder = folders[name]
        if folder not in self._results:
            self._results[folder] = read_results(folder)
        return self._results[folder]
