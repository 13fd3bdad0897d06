"""Build reports of the repository's experiments from its bundles alone: no home, no store, no training.

Each folder of `results/` is a bundle; files run under different overrides need different ones. A file whose runs were
done for other files needs none: its runs are collected from all bundles.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from plat.errors import SpecError
from plat.spec.expansion.experiment import Experiment, load_experiment
from plat.spec.reading.yaml_reader import read
from plat.store.bundle.bundle_frames import experiments_in, read_results, runs_in
from plat.store.bundle.format import MANIFEST
from plat.store.mlflow.frames import Frames
from plat_analysis.report.build import build_report
from plat_analysis.report.report import Report

if TYPE_CHECKING:
    import pandas as pd

REFERENCE = "table4"
EXPORT = "run `plat sweep` and `plat export` again with this version of plat"


class Bundles:
    """Reports of all experiments in the bundles: `bundles.report(name)`. Each is built once."""

    def __init__(self, root: Path) -> None:
        self.root, self.folder = root, root / "results"
        manifests = [manifest.parent for manifest in self.folder.rglob(MANIFEST)]
        self._folders = sorted(manifests, key=lambda folder: (folder.name, folder))
        self.report, self._results = cache(self._built), cache(read_results)

    def folders(self) -> dict[str, Path]:
        """Return experiment name -> the folder of its bundle; of several bundles that have it, the last by name."""
        return {name: folder for folder in self._folders for name in experiments_in(folder)}

    def claims_of(self, name: str) -> bool:
        """Return True if the experiment file of this name has claims. Reads the file without expanding its runs."""
        data = read(self._path_of(name)).data
        return isinstance(data, dict) and bool(data.get("claims"))

    def _path_of(self, name: str) -> Path:
        paths = sorted((self.root / "experiments").rglob(f"{name}.yaml"))
        if not paths:
            raise SpecError(f"there is no experiment file {name}.yaml", where=str(self.root / "experiments"))
        return paths[0]

    def _built(self, name: str) -> Report:
        """Return the report of an experiment file.

        Raises SpecError if there is no such file, if no bundle has its runs as they are now, or if a part of the report
        fails; BundleError if a bundle is damaged.
        """
        path, folder = self._path_of(name), self.folders().get(name)
        if folder is None:
            experiment = load_experiment(path)
            frames = self._from_all(experiment)
        else:
            results = self._results(folder)
            experiment, frames = load_experiment(path, results.overrides), results.frames
            exported = set(results.experiments[name])
            if strangers := exported - {run.id for run in experiment.runs}:
                raise SpecError(
                    f"{len(strangers)} of {len(exported)} runs in the bundle are not those of {path.name}: "
                    "the file, the trainer or a base model has changed since they were exported",
                    where=str(self.folder),
                    fix=EXPORT,
                )
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
        for folder in sorted(self._folders, key=lambda folder: folder != reference):
            if here := missing & runs_in(folder):
                parts.append((self._results(folder).frames, here))
                missing -= here
        if missing:
            found = f"{len(missing)} of {len(experiment.runs)} runs of {experiment.name!r} are in no bundle"
            raise SpecError(found, where=str(self.folder), fix=EXPORT)
        return Frames(*(_together(parts, name) for name in ("runs", "metrics", "tables")))


def _together(parts: Sequence[tuple[Frames, set[str]]], name: str) -> pd.DataFrame:
    """Return one frame, in the order of run ids, of the chosen runs of each part."""
    import pandas as pd

    frames = [(getattr(frames, name), chosen) for frames, chosen in parts]
    kept = [frame[frame["run_id"].isin(chosen)] for frame, chosen in frames]
    return pd.concat(kept, ignore_index=True).sort_values("run_id", kind="stable", ignore_index=True)
