"""A plan: where the runs of some experiments stand and what the rest will cost, as an object, as text and as JSON."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any

from plat.plan.asked import Asked, asked_lines, asked_of
from plat.plan.kinds import Kind, kinds_of
from plat.plan.precheck import Precheck, precheck_lines
from plat.plan.view import SYMBOLS, artifact_lines, kind_lines, matrix_lines
from plat.spec.experiment import Experiment, Run
from plat.spec.trainer_calls import iterations_of
from plat.store.run_directory.state import IN_ARCHIVE, STATES, RunState
from plat.units import are, counted, duration, percent, size


@dataclass(frozen=True)
class PlanRow:
    """One run; `experiments` ask for it.

    seconds  the work still to do, None when that is not known
    spread   the median and the 90th percentile of that work, as similar runs took here
    """

    run: Run
    state: RunState
    experiments: tuple[str, ...]
    seconds: float | None
    spread: tuple[float, float] | None = None

    @property
    def id(self) -> str:
        return self.run.id

    def to_json(self) -> dict[str, Any]:
        """The row for `plat plan --json`."""
        return {
            "id": self.run.id,
            "name": self.run.name,
            "state": self.state.state,
            "axes": self.run.axes,
            "experiments": list(self.experiments),
            "trainer": self.run.trainer,
            "outcome": self.state.outcome,
            "step": self.state.step,
            "iterations": iterations_of(self.run.trainer, self.run.config),
            "success": self.state.success,
            "attempt": self.state.attempt,
            "seconds": _rounded(self.seconds),
        }


@dataclass(frozen=True)
class Plan:
    """The runs of some experiments and where they stand. `measured` counts runs whose cost has a history.

    work_seconds, wall_seconds  None while the cost of some run is not known
    """

    experiments: list[Experiment]
    rows: list[PlanRow]
    preparations: list[str]  # titles of shared work still to do
    workers: int
    work_seconds: float | None
    wall_seconds: float | None
    disk_bytes: int
    measured: int
    prechecks: list[Precheck]  # of the starts of the runs that are left, as earlier runs recorded them

    @property
    def counts(self) -> dict[str, int]:
        """State -> number of runs, every state named."""
        counts = Counter(row.state.state for row in self.rows)
        return {state: counts[state] for state in STATES}

    def to_json(self) -> dict[str, Any]:
        """The plan for `plat plan --json`."""
        return {
            "runs": [row.to_json() for row in self.rows],
            "counts": self.counts,
            "shared": self.shared,
            "experiments": [
                {
                    "name": experiment.name,
                    "title": experiment.title,
                    "path": str(experiment.path),
                    "paper": experiment.paper,
                    "scale": experiment.scale,
                    "source": experiment.source,
                    "runs": len(experiment.runs),
                }
                for experiment in self.experiments
            ],
            "prechecks": [precheck.to_json() for precheck in self.prechecks],
            "cost": {
                "workers": self.workers,
                "work_seconds": _rounded(self.work_seconds),
                "wall_seconds": _rounded(self.wall_seconds),
                "disk_bytes": self.disk_bytes,
                "preparations": self.preparations,
                "measured_runs": self.measured,
                "basis": self.basis(),
                "kinds": [kind.to_json() for kind in self.kinds],
                "asked": [asked.to_json() for asked in self.asked],
            },
        }

    @property
    def left(self) -> list[PlanRow]:
        """The runs that are not done."""
        return [row for row in self.rows if row.state.state != "done"]

    @property
    def kinds(self) -> list[Kind]:
        """What the runs that are left cost, by trainer, model and task."""
        return kinds_of((row.run, row.spread) for row in self.left)

    @property
    def asked(self) -> list[Asked]:
        """What the runs that are left ask for, those with GPUs."""
        return asked_of(row.run for row in self.left)

    def basis(self) -> str:
        """Where the expected time comes from."""
        left = len(self.left)
        if not left:
            return "nothing left to do"
        if self.measured == left:
            return "measured on earlier runs here, if none stops early"
        return f"not known before {'a run' if not self.measured else 'one of each kind'} has made an iteration here"

    def render(self, verbose: bool = False) -> str:
        """The counts and the cost, as plain text. Before them the matrix of an experiment; several experiments are
        listed, with `verbose` under their matrices."""
        state_of = {row.id: row.state.state for row in self.rows}
        parts = []
        if len(self.experiments) == 1 or verbose:
            parts += [line for experiment in self.experiments for line in matrix_lines(experiment, state_of)]
        if len(self.experiments) > 1:
            parts += [*artifact_lines(self.experiments, state_of), "", self._union(), ""]
        parts.append("   ".join(f"{SYMBOLS[state]} {count} {state}" for state, count in self.counts.items() if count))
        if verbose:
            width = max((len(row.run.name) for row in self.rows), default=0)
            kinds = kind_lines(self.kinds)
            parts += ["", *(_line(row, width) for row in self.rows), *(["", *kinds] if kinds else [])]
        for lines in (asked_lines(self.asked), precheck_lines(self.prechecks)):
            parts += ["", *lines] if lines else []
        return "\n".join([*parts, "", *self._cost()])

    @property
    def shared(self) -> int:
        """How many runs several of the experiments ask for."""
        return sum(len(row.experiments) > 1 for row in self.rows)

    def _union(self) -> str:
        """How many runs the experiments ask for together, each done once."""
        asked = sum(len(row.experiments) for row in self.rows)
        files = counted(len(self.experiments), "file")
        return f"{asked} runs asked for by {files}, {len(self.rows)} together: {self.shared} are shared, and done once"

    def _cost(self) -> list[str]:
        """What is left to do and how long it takes, as lines."""
        left = self.left
        if not left:
            return [f"Nothing to do: {'the run is' if len(self.rows) == 1 else f'all {len(self.rows)} runs are'} done."]
        lines = []
        if self.preparations:
            lines.append(f"To prepare first: {', '.join(self.preparations)}")
        if archived := sum(row.state.reason == IN_ARCHIVE for row in left):
            mend = "`plat archive --restore` brings back what was done"
            lines.append(f"{counted(archived, 'run')} {are(archived)} in the archive; {mend}")
        workers = counted(self.workers, "worker")
        head, disk = f"{len(left)} of {counted(len(self.rows), 'run')} to do", f"{size(self.disk_bytes)} of disk"
        if self.wall_seconds is None or self.work_seconds is None:
            limits = "the times above are limits, and " if any(asked.minutes for asked in self.asked) else ""
            return [*lines, f"{head} with {workers}, {disk}; {limits}how long they take is {self.basis()}"]
        slow = sum(row.spread[1] for row in left if row.spread is not None) - sum(row.seconds or 0.0 for row in left)
        most = f", {duration(self.work_seconds + slow)} if all are as slow as the slowest tenth" if slow >= 1 else ""
        time = f"about {duration(self.wall_seconds)} with {workers} ({duration(self.work_seconds)} of work{most})"
        return [*lines, f"{head}: {time}, {disk} ({self.basis()})"]


def _line(row: PlanRow, width: int) -> str:
    parts = [f"{SYMBOLS[row.state.state]} {row.run.name.ljust(width)}", row.state.outcome or row.state.state]
    if row.state.success is not None:
        parts.append(f"success {percent(row.state.success)}")
    if row.state.state != "done" and row.state.step:
        parts.append(f"at iteration {row.state.step}")
    return "  ".join(parts)


def _rounded(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds, 1)
