"""Print how the runs of a verb ended and how to continue."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from plat.app.messages import stage
from plat.characters import without_numbers
from plat.cli.screen.table import first_rows
from plat.dispatch.dispatcher import REFUSED
from plat.units import are, counted
from plat.words.outcomes import CANCELLED
from plat.words.states import RunStatus

if TYPE_CHECKING:
    from plat.dispatch.sweep_ends import RunEnd, SweepReport


def conclude(report: SweepReport, verb: str = "sweep") -> int:
    """Print what went wrong and how to continue; return the exit code. `verb` continues stopped runs."""
    stage.concluded = True
    for line in report.trouble:
        print(f"warning: {line}", file=sys.stderr)
    total = counted(len(report.ends), "run")
    queued = [end for end in report.ends.values() if end.state == RunStatus.QUEUED]
    fine = (RunStatus.DONE, RunStatus.QUEUED) if report.detached else (RunStatus.DONE,)
    bad = [end for end in report.ends.values() if end.state not in fine]
    if report.detached and queued:
        where = f"with the scheduler ({places(queued)})"
        print(f"{len(queued)} of {total} {are(len(queued))} {where}; this command is no longer needed")
        fix = "`plat status` and `plat report` show the state and the results; the same command submits the other runs"
        print(fix)
    if report.interrupted:
        done = sum(end.state == RunStatus.DONE for end in report.ends.values())
        rest = "; the same command resumes from here" if done < len(report.ends) else ""
        print(f"interrupted: {done} of {total} {are(done)} done{rest}")
    elif bad:
        print(f"\n{len(bad)} of {total} {are(len(bad))} not done:", file=sys.stderr)
        dropped = [end for end in bad if report.given_up and end.outcome == CANCELLED and not end.fresh]
        known = [end for end in bad if end not in dropped]
        rows = _kinds(known)
        print(first_rows(("run", "outcome", "reason"), rows, 20, ": `plat status` lists them"), file=sys.stderr)
        print("\n".join(_how_to_go_on(known, verb)), file=sys.stderr)
        if dropped:
            print(
                f"{len(dropped)} others were not started after these failures; `--keep-going` starts them",
                file=sys.stderr,
            )
    return report.exit_code


def _kinds(bad: Sequence[RunEnd]) -> list[tuple[str, str, str]]:
    """Return (run, outcome, reason) of the first run of each kind; the run's name counts the others of its kind.

    Runs are of one kind if their outcomes are equal and their reasons differ in numbers only.
    """
    kinds: dict[tuple[str, str], list[RunEnd]] = {}
    for end in bad:
        kinds.setdefault((end.outcome or end.state, without_numbers(end.reason)), []).append(end)
    rows = []
    for (outcome, _), (first, *others) in kinds.items():
        more = f" and {len(others)} more" if others else ""
        rows.append((first.run.name + more, outcome, " ".join(first.reason.split())))
    return rows


def _how_to_go_on(bad: Sequence[RunEnd], verb: str) -> list[str]:
    """Return the commands that continue unfinished runs, which differ between failed and stopped runs."""
    if all(end.outcome == REFUSED for end in bad):
        return ["nothing was started: change what was refused, then give the command again"]
    states = {end.state for end in bad}
    lines = ["`plat logs RUN` shows what a run said, `plat retry` tries again"] if RunStatus.FAILED in states else []
    if states & {RunStatus.INTERRUPTED, RunStatus.MISSING}:
        which = "those that were stopped or did not start" if RunStatus.FAILED in states else "them"
        lines.append(f"the next `plat {verb}` resumes {which}")
    return lines or ["`plat why RUN` says what is known of a run"]


def places(queued: Sequence[RunEnd]) -> str:
    """Return the scheduler's job numbers of these runs, such as "12, 13"; beyond five jobs, five and " and 4 more"."""
    jobs = sorted({end.reason.partition("_")[0] for end in queued})
    return ", ".join(jobs[:5]) + (f" and {len(jobs) - 5} more" if len(jobs) > 5 else "")
