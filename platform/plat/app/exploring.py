"""The page `explore.html` beside a report, where the packages of the extra `explore` are installed."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote, urlsplit, urlunsplit

from plat.store.home import Home

if TYPE_CHECKING:
    from plat.spec.expansion.run import Run
    from plat_analysis.explore.runs import Places
    from plat_analysis.report.report import Report


def explorer_beside(home: Home, uri: str, report: Report, folder: Path) -> dict[str, bytes]:
    """Return the files of the explorer of a report that will lie in `folder`; {} without the extra `explore`.

    A mistake while the page is made is added to the failures of the report, which is written all the same.
    """
    from plat_analysis.explore.page_file import NAME, explorer_files
    from plat_analysis.plugins.builders import Failure

    try:
        return explorer_files(report.results, places(home, uri, report.experiment.runs, folder))
    except Exception as error:
        report.build_failures.append(Failure.of(f"the page {NAME!r}", error, str(report.experiment.path)))
        return {}


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
