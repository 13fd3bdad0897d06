"""The JSON of verbs that execute runs: a line for each change, a summary every ten seconds, and at last the ends."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from plat.cli.result import print_event, settings
from plat.dispatch.progress import SUMMARY_EVERY, Progress, Totals, choose

if TYPE_CHECKING:
    from plat.app.report_making import MadeReport
    from plat.dispatch.dispatcher import Change
    from plat.dispatch.follower import View
    from plat.dispatch.sweep_ends import SweepReport


class JsonLines(Progress):
    """Print JSON lines on stdout (`RunEvent`, `ProgressEvent`, `MessageEvent`)."""

    def __init__(self) -> None:
        self._due = time.monotonic() + SUMMARY_EVERY
        self._last: Totals | None = None

    def change(self, change: Change, *, measured: str = "", seconds: float = 0.0) -> None:
        facts: dict[str, Any] = {"kind": change.kind, "id": change.job, "name": change.title, "state": change.state}
        facts |= {"outcome": change.outcome or None, "reason": change.reason or ""}
        print_event("run", {**facts, "seconds": round(seconds, 1), "measured": measured})

    def update(self, views: list[View], totals: Totals) -> None:
        if time.monotonic() >= self._due and totals != self._last:
            self._due, self._last = time.monotonic() + SUMMARY_EVERY, totals
            print_event("progress", asdict(totals))

    def message(self, text: str) -> None:
        print_event("message", {"text": text})


def progress_of_verb(*, quiet: bool = False, each: bool = True) -> Progress:
    """Return what shows the progress of a verb: JSON lines on stdout, or text, which `--json` sends to stderr.

    quiet  show nothing to people
    each   show people a line for each run that starts or ends, not only summaries
    """
    if settings.json and settings.lines:
        return JsonLines()
    return Progress() if quiet else choose(each=each)


def ends_data(report: SweepReport, reports: Sequence[MadeReport] = ()) -> dict[str, Any]:
    """Return how the runs of a sweep ended, as `SweepData`."""
    ends = report.ends.items()
    return {
        "runs": [
            {"id": key, "name": end.run.name, "state": end.state, "outcome": end.outcome, "reason": end.reason}
            for key, end in ends
        ],
        "counts": report.counts(),
        "is_detached": report.detached,
        "is_interrupted": report.interrupted,
        "given_up": report.given_up,
        "trouble": report.trouble,
        "reports": list(map(report_data, reports)),
    }


def report_data(made: MadeReport) -> dict[str, Any]:
    """Return a report that was made, as `ReportData`."""
    from plat_analysis.report.report import used_by

    used, count = used_by(made.built.results.runs)
    rates = made.built.provenance.rates if made.built.provenance else None
    return {
        "experiment": made.built.experiment.name,
        "page": next((str(path) for path in made.files if path.name == "report.html"), None),
        "files": list(map(str, made.files)),
        "is_whole": made.whole,
        "kept": made.kept,
        "cost": {"runs": count, **used.to_json(rates)},
        "verdicts": [verdict.as_dict() for verdict in made.built.claims],
    }
