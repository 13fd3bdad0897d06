"""Build reports of the repository's experiments from its bundles alone: no home, no store, no training.

Each folder of `results/` is a bundle; files run under different overrides need different ones. A file whose runs were
done for other files needs none: its runs are collected from all bundles.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from plat.errors import SpecError
from plat.spec.expansion.experiment import Experiment, load_experiment
from plat.spec.reading.yaml_reader import read
from plat.store.bundle.bundle_frames import BundleResults, experiments_in, read_results, runs_in
from plat.store.bundle.format import MANIFEST
from plat.store.mlflow.frames import Frames
from plat_analysis.report.build import build_report
from plat_analysis.report.report import Report

if TYPE_CHECKING:
    import pandas as pd

REFERENCE = "table4"
EXPORT = "run `plat sweep` and `plat export` again with this version of plat"


class Bundles:
    """Reports of all experiments in the bundles: `bundles.report(name, overrides)`. Each is built once."""

    def __init__(self, root: Path) -> None:
        self.root, self.folder = root, root / "results"
        self._reports: dict[tuple[str, ...], Report] = {}
        self._results: dict[Path, BundleResults] = {}

    def report(self, name: str, overrides: Sequence[str] = ()) -> Report:
        """Return the report of an experiment file, or of a part of its runs (`matrix.seed=[0]`).

        Raises SpecError if there is no such file, if no bundle has its runs as they are now, or if a part of the report
        fails; BundleError if a bundle is damaged.
        """
        key = (name, *overrides)
        if key not in self._reports:
            self._reports[key] = self._built(name, overrides)
        return self._reports[key]

    def folders(self) -> dict[str, Path]:
        """Return experiment name -> the folder of its bundle; of several bundles that have it, the last by name."""
        return {name: folder for folder in self._folders() for name in experiments_in(folder)}

    def claims_of(self, name: str) -> bool:
        """Return True if the experiment file of this name has claims. Reads the file without expanding its runs."""
        data = read(self._path_of(name)).data
        return isinstance(data, dict) and bool(data.get("claims"))

    def _path_of(self, name: str) -> Path:
        """Return the experiment file of this name. Raises SpecError if there is none."""
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
        """Return the results of an experiment's runs from all bundles. Raises SpecError if a run is in none."""
        missing, parts = {run.id for run in experiment.runs}, []
        reference = self.folder / REFERENCE  # first: another bundle has some of its runs from another type of CPU
        for folder in sorted(self._folders(), key=lambda folder: folder != reference):
            if here := missing & runs_in(folder):
                parts.append((self._results_in(folder).frames, here))
                missing -= here
        if missing:
            raise SpecError(
                f"{len(missing)} of {len(experiment.runs)} runs of {experiment.name!r} are in no bundle",
                where=str(self.folder),
                fix=f"{EXPORT}, or choose a part of the runs that is there",
            )
        return Frames(*(_together(parts, name) for name in ("runs", "metrics", "tables")))

    def _results_in(self, folder: Path) -> BundleResults:
        if folder not in self._results:
            self._results[folder] = read_results(folder)
        return self._results[folder]

    def _folders(self) -> list[Path]:
        folders = [manifest.parent for manifest in self.folder.rglob(MANIFEST)]
        return sorted(folders, key=lambda folder: (folder.name, folder))


def _check_wanted(experiment: Experiment, exported: set[str], part: bool, where: Path) -> None:
    """Raise SpecError if the runs of a file are not those exported for it; a part may have fewer runs."""
    wanted = {run.id for run in experiment.runs}
    strangers = wanted - exported if part else exported - wanted
    if strangers:
        raise SpecError(
            f"{len(strangers)} of {len(wanted if part else exported)} runs "
            f"{'are not in the bundle' if part else 'in the bundle are not those of ' + experiment.path.name}: "
            "the file, the trainer or a base model has changed since they were exported",
            where=str(where),
            fix=EXPORT,
        )


def _together(parts: Sequence[tuple[Frames, set[str]]], name: str) -> pd.DataFrame:
    """Return one frame, in the order of run ids, of the chosen runs of each part."""
    import pandas as pd

    frames = [(getattr(frames, name), chosen) for frames, chosen in parts]
    kept = [frame[frame["run_id"].isin(chosen)] for frame, chosen in frames]
    return pd.concat(kept, ignore_index=True).sort_values("run_id", kind="stable", ignore_index=True)
