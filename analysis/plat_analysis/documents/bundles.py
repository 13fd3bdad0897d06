"""Reports of the experiments in the repository's bundles, made from these alone: no home, no store, no training.

A report may be that of a part of the runs: with overrides of the matrix beside those of the bundle.

`docs/results/` is a bundle, and any other folder in `docs/` may be one (files that were run under different overrides
cannot share one).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from plat.errors import SpecError
from plat.spec.experiment import load_experiment
from plat.spec.yaml_reader import read
from plat.store.bundle.format import MANIFEST
from plat.store.bundle.frames import BundleResults, experiments_in, read_results
from plat.suggest import mend
from plat_analysis.report.build import build_report
from plat_analysis.report.report import Report

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
        """Name of an experiment -> the bundle that holds its results."""
        return {
            experiment: manifest.parent
            for manifest in sorted(self.folder.rglob(MANIFEST))
            for experiment in experiments_in(manifest.parent)
        }

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
        results = self._results_of(name)
        path = self._path_of(name)
        keys = {override.partition("=")[0] for override in overrides}
        kept = [override for override in results.overrides if override.partition("=")[0] not in keys]
        experiment = load_experiment(path, [*kept, *overrides])
        reference = experiment.reference_folder
        if reference is None or not reference.exists() or reference.samefile(self._folder_of(name)):
            experiment = replace(experiment, reference=None)  # a bundle is not compared with itself
        exported, wanted = set(results.experiments[name]), {run.id for run in experiment.runs}
        strangers = wanted - exported if overrides else exported - wanted
        if strangers:
            raise SpecError(
                f"{len(strangers)} of {len(wanted if overrides else exported)} runs "
                f"{'are not in the bundle' if overrides else 'in the bundle are not those of ' + path.name}: "
                "the file, the trainer or a base model has changed since they were exported",
                where=str(self.folder),
                mend=EXPORT,
            )
        report = build_report(results.frames, experiment)
        for failure in report.failures:
            raise SpecError(failure.render(), where=str(path))
        return replace(report, experiment=replace(experiment, path=path.relative_to(self.root)))

    def _results_of(self, name: str) -> BundleResults:
        """The bundle that holds an experiment; the others are not read."""
        folder = self._folder_of(name)
        if folder not in self._results:
            self._results[folder] = read_results(folder)
        return self._results[folder]

    def _folder_of(self, name: str) -> Path:
        """Where the bundle is that holds an experiment; SpecError where none does."""
        folders = self.folders()
        if name not in folders:
            raise SpecError(
                f"no bundle holds results of {name!r}", where=str(self.folder), mend=mend(name, folders, "results")
            )
        return folders[name]
