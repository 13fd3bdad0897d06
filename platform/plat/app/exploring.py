"""The page `explore.html` beside a report, where the packages of the extra `explore` are installed."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote, urlsplit, urlunsplit

from plat.app.importing import load_results
from plat.store.home import Home

if TYPE_CHECKING:
    from plat.spec.expansion.experiment import Experiment
    from plat.spec.expansion.run import Run
    from plat.store.mlflow.frames import Frames
    from plat_analysis.explore.importance import Importance
    from plat_analysis.explore.runs import Places
    from plat_analysis.report.report import Report


def explorer_beside(
    home: Home, uri: str, report: Report, folder: Path, searched: Importance | None = None
) -> dict[str, bytes]:
    """Return the files of the explorer of a report that will lie in `folder`; {} without the extra `explore`.

    searched  which parameters matter by Optuna, for a search
    A mistake while the page is made is added to the failures of the report, which is written all the same.
    """
    from plat_analysis.explore.page_file import NAME, explorer_files
    from plat_analysis.plugins.builders import Failure

    try:
        return explorer_files(report.results, places(home, uri, report.experiment.runs, folder), searched)
    except Exception as error:
        report.build_failures.append(Failure.of(f"the page {NAME!r}", error, str(report.experiment.path)))
        return {}


def joint_explorer(home: Home, uri: str, reports: Sequence[Report], folder: Path) -> dict[str, bytes]:
    """Return the explorer of the runs of several files, with the file as their first axis; {} without the extra.

    Results are read from the store again. Raises StoreError if they cannot be.
    """
    from plat_analysis.data.results import Results
    from plat_analysis.explore.page_file import explorer_files, is_possible

    if not is_possible():
        return {}
    experiment = _union([report.experiment for report in reports])
    frames = _joined([load_results(home, uri, report.experiment, fix=False) for report in reports])
    return explorer_files(Results(frames, experiment), places(home, uri, experiment.runs, folder))


def _union(experiments: Sequence[Experiment]) -> Experiment:
    """Return the runs of all files as one experiment without a matrix. A run of several files is there once."""
    files: dict[str, list[str]] = {}
    for experiment in experiments:
        for run in experiment.runs:
            files.setdefault(run.id, []).append(experiment.name)
    runs = {run.id: run for experiment in reversed(experiments) for run in experiment.runs}
    shown = [
        replace(runs[run_id], axes={"file": " + ".join(names), **runs[run_id].axes}) for run_id, names in files.items()
    ]
    claims = [claim for experiment in experiments for claim in experiment.claims]
    title = ", ".join(experiment.title for experiment in experiments)
    return replace(experiments[0], title=title, runs=shown, claims=claims, axes={}, cells=[], report=[])


def _joined(parts: Sequence[Frames]) -> Frames:
    """Return the frames of several files as one, with each run once."""
    import pandas as pd

    known: set[str] = set()
    kept = []
    for part in parts:
        new = set(part.runs["run_id"]) - known
        kept.append([frame[frame["run_id"].isin(new)] for frame in (part.runs, part.metrics, part.tables)])
        known |= new
    runs, metrics, tables = (pd.concat(frames, ignore_index=True) for frames in zip(*kept, strict=True))
    return replace(parts[0], runs=runs, metrics=metrics, tables=tables)


def places(home: Home, uri: str, runs: Iterable[Run], folder: Path) -> Places:
    """Return where the folders of runs lie, seen from `folder`, and the MLflow server, if the store is one."""
    from plat_analysis.explore.runs import Places

    start = os.path.abspath(folder)
    roots = {run.id: home.run(run.id).root for run in runs}
    folders = {run_id: f"{quote(os.path.relpath(root, start))}/" for run_id, root in roots.items() if root.is_dir()}
    return Places(folders, server(uri))


def server(uri: str) -> str:
    """Return the address of the MLflow server of a store without user, password and query; "" if it is no server."""
    if not uri.startswith(("http://", "https://")):
        return ""
    parts = urlsplit(uri)
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))
