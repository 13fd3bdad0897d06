"""A plan: the states of the runs of some experiments and the cost of the rest, as an object, as text and as JSON."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from statistics import fmean
from typing import Any

from plat.planning.check import need_lines
from plat.planning.view import MOST_FILES, SYMBOLS, aligned, artifact_lines, files_of, matrix_lines
from plat.spec.composition.schema import select
from plat.spec.composition.trainer_calls import iterations_of
from plat.spec.expansion.experiment import Experiment, Run
from plat.store.run_directory.state import STATES, RunState
from plat.trainer.api import Need, PlanNote
from plat.trainer.resources import Resources
from plat.units import counted, duration, percent, size
from plat.words.states import RunStatus
from plat.words.usage import Rates, Usage


@dataclass(frozen=True)
class PlanRow:
    """One run, and the names of the `experiments` that ask for it.

    seconds  expected seconds of the work still to do; 0.0 if the run is done, None if they are unknown
    spread   median and 90th percentile of these seconds; None if the run is done or they are unknown
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
        """Return the row for `plat plan --json`."""
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
    """The runs of some experiments and their states. Work and wall seconds are None if the cost of some run is unknown.

    disk_bytes  what the unfinished runs will keep on disk
    measured    number of unfinished runs with a known cost
    """

    experiments: list[Experiment]
    rows: list[PlanRow]
    preparations: list[str]  # titles of shared work still to do
    workers: int
    work_seconds: float | None
    wall_seconds: float | None
    disk_bytes: int
    measured: int
    notes: list[PlanNote]  # of the trainers of the runs that are left
    needs: list[Need]  # of the runs that are left, beside this package
    usage: Usage | None = None  # of the runs that are left, preparations not counted; None as for the work seconds
    rates: Rates | None = None  # prices that the user has given

    def counts(self) -> dict[str, int]:
        """Return state -> number of runs, for every state."""
        counts = Counter(row.state.state for row in self.rows)
        return {str(state): counts[state] for state in STATES}

    def to_json(self) -> dict[str, Any]:
        """Return the plan for `plat plan --json`."""
        return {
            "runs": [row.to_json() for row in self.rows],
            "counts": self.counts(),
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
                    "code": files_of(experiment.runs),
                }
                for experiment in self.experiments
            ],
            **{note.name: note.rows for note in self.notes},
            "needs": list(map(asdict, self.needs)),
            "cost": {
                "workers": self.workers,
                "work_seconds": _rounded(self.work_seconds),
                "wall_seconds": _rounded(self.wall_seconds),
                "disk_bytes": self.disk_bytes,
                "preparations": self.preparations,
                "measured_runs": self.measured,
                "usage": self.usage and self.usage.to_json(self.rates),
                "basis": self.basis(),
                "kinds": list(map(asdict, self.kinds)),
                "asked": list(map(asdict, self.asked)),
            },
        }

    @property
    def left(self) -> list[PlanRow]:
        """The runs that are not done."""
        return [row for row in self.rows if row.state.state != RunStatus.DONE]

    @property
    def kinds(self) -> list[Kind]:
        """Cost of the runs that are left, by trainer, model and task."""
        return kinds_of((row.run, row.spread) for row in self.left)

    @property
    def asked(self) -> list[Asked]:
        """What the runs that are not done ask for. Runs that use no GPU are left out."""
        return asked_of(row.run for row in self.left)

    def basis(self) -> str:
        """Return the source of the expected time, in words."""
        left = len(self.left)
        if not left:
            return "nothing left to do"
        if self.measured == left:
            return "measured on earlier runs here, if none stops early"
        return f"unknown until {'a run' if not self.measured else 'a run of each kind'} has made an iteration here"

    def __str__(self) -> str:
        return self.render()

    def render(self, verbose: bool = False) -> str:
        """Return the matrix of one experiment or a list of several, the counts, and the cost, as plain text.

        verbose  also print the matrices of several experiments, a line for each run, and the times by kind
        """
        state_of = {row.id: row.state.state for row in self.rows}
        parts = []
        if len(self.experiments) == 1 or verbose:
            most = None if verbose else MOST_FILES
            parts += [line for experiment in self.experiments for line in matrix_lines(experiment, state_of, most)]
        if len(self.experiments) > 1:
            parts += [*artifact_lines(self.experiments, state_of), "", self._union(), ""]
        parts.append("   ".join(f"{SYMBOLS[state]} {count} {state}" for state, count in self.counts().items() if count))
        if verbose:
            width = max((len(row.run.name) for row in self.rows), default=0)
            kinds = kind_lines(self.kinds)
            parts += ["", *(_line(row, width) for row in self.rows), *(["", *kinds] if kinds else [])]
        for lines in (asked_lines(self.asked), *(note.lines for note in self.notes), need_lines(self.needs)):
            parts += ["", *lines] if lines else []
        return "\n".join([*parts, "", *self._cost()])

    @property
    def shared(self) -> int:
        """Number of runs that several of the experiments ask for."""
        return sum(len(row.experiments) > 1 for row in self.rows)

    def _union(self) -> str:
        """Return the number of runs that the experiments ask for together, as a line."""
        asked = sum(len(row.experiments) for row in self.rows)
        files = counted(len(self.experiments), "file")
        return f"{files} ask for {asked} runs, {len(self.rows)} different ones: {self.shared} are shared and done once"

    def _cost(self) -> list[str]:
        """Return what is left to do and how long it takes, as lines."""
        left = self.left
        if not left:
            return [f"Nothing to do: {'the run is' if len(self.rows) == 1 else f'all {len(self.rows)} runs are'} done."]
        lines = []
        if self.preparations:
            lines.append(f"To prepare first: {', '.join(self.preparations)}")
        workers = counted(self.workers, "worker")
        most = "at most " if any(experiment.decide for experiment in self.experiments) else ""
        head, disk = f"{most}{len(left)} of {counted(len(self.rows), 'run')} to do", f"{size(self.disk_bytes)} of disk"
        if self.wall_seconds is None or self.work_seconds is None:
            limits = "the times above are limits; " if any(asked.minutes for asked in self.asked) else ""
            return [*lines, f"{head} with {workers}, {disk}; {limits}how long they take is {self.basis()}"]
        slow = sum(row.spread[1] for row in left if row.spread is not None) - sum(row.seconds or 0.0 for row in left)
        slowest = f", {duration(self.work_seconds + slow)} if all are as slow as the slowest 10 %" if slow >= 1 else ""
        time = f"about {duration(self.wall_seconds)} with {workers} ({duration(self.work_seconds)} of work{slowest})"
        lines.append(f"{head}: {time}, {disk} ({self.basis()})")
        if self.usage and (self.rates or self.usage.gpu_seconds or self.usage.kwh is not None):
            lines.append(f"that is {self.usage.text(self.rates)}")
        return lines


def _line(row: PlanRow, width: int) -> str:
    parts = [f"{SYMBOLS[row.state.state]} {row.run.name.ljust(width)}", row.state.outcome or row.state.state]
    if row.state.success is not None:
        parts.append(f"success {percent(row.state.success)}")
    if row.state.state != RunStatus.DONE and row.state.step:
        parts.append(f"at iteration {row.state.step}")
    return "  ".join(parts)


def _rounded(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds, 1)


# The runs that are left, in groups: the time of each kind, and the resources that runs with GPUs ask for.


@dataclass(frozen=True)
class Kind:
    """The runs left of one trainer, model and task.

    p50, p90  median and 90th percentile of the seconds left of one run, each as the mean over the runs that have an
              estimate; None until a similar run was measured here
    """

    trainer: str
    model: str
    task: str
    runs: int
    p50: float | None
    p90: float | None


@dataclass(frozen=True)
class Asked:
    """Runs of one trainer, model, task and algorithm that ask for the same resources.

    gpus, memory_mb   of each node; memory 0: not stated
    minutes           wall-clock limit for the scheduler; 0: not stated
    """

    trainer: str
    model: str
    task: str
    algorithm: str
    nodes: int
    gpus: int
    memory_mb: int
    minutes: int
    runs: int


def kinds_of(runs: Iterable[tuple[Run, tuple[float, float] | None]]) -> list[Kind]:
    """Group runs and their (p50, p90) seconds into kinds, in the order of the runs."""
    groups: dict[tuple[str, ...], list[tuple[float, float] | None]] = defaultdict(list)
    for run, spread in runs:
        groups[_names(run, "model", "task")].append(spread)
    kinds = []
    for (trainer, model, task), spreads in groups.items():
        known = [spread for spread in spreads if spread is not None]
        p50, p90 = (fmean(spread[part] for spread in known) if known else None for part in (0, 1))
        kinds.append(Kind(trainer, model, task, len(spreads), p50, p90))
    return kinds


def kind_lines(kinds: Sequence[Kind]) -> list[str]:
    """Return the time of a run of each kind, as a table; [] if no run is left."""
    table = [["trainer", "model", "task", "runs", "p50", "p90"]]
    for kind in kinds:
        times = ("?" if value is None else duration(value) for value in (kind.p50, kind.p90))
        table.append([kind.trainer, kind.model, kind.task, str(kind.runs), *times])
    return ["time of a run that is left:", *aligned(table)] if kinds else []


def asked_of(runs: Iterable[Run]) -> list[Asked]:
    """Return what these runs ask for, in their order. Runs without GPUs are left out."""
    counts: Counter[tuple[Any, ...]] = Counter()
    for run in runs:
        if run.resources.get("gpus"):
            needed = Resources.of(run.resources)
            names = _names(run, "model", "task", "algorithm")
            counts[*names, needed.nodes, needed.gpus, needed.memory_mb, needed.minutes] += 1
    return [Asked(*facts, number) for facts, number in counts.items()]  # type: ignore[call-arg]


def asked_lines(asked: Sequence[Asked]) -> list[str]:
    """Return the table as lines; [] without GPUs. The last line has the total GPU-hours if all minutes are stated."""
    table = [["trainer", "model", "task", "algorithm", "runs", "GPUs", "memory", "at most"]]
    for row in asked:
        gpus = f"{row.nodes} x {row.gpus}" if row.nodes > 1 else str(row.gpus)
        memory = f"{row.memory_mb / 1024:.0f} GiB" if row.memory_mb else "?"
        time = duration(60.0 * row.minutes) if row.minutes else "?"
        table.append([row.trainer, row.model, row.task, row.algorithm, str(row.runs), gpus, memory, time])
    lines = ["each run with GPUs asks for:", *aligned(table)] if asked else []
    if asked and all(row.minutes for row in asked):
        hours = sum(row.runs * row.nodes * row.gpus * row.minutes / 60 for row in asked)
        lines.append(f"  together at most {hours:,.0f} GPU-hours")
    return lines


def _names(run: Run, *groups: str) -> tuple[str, ...]:
    """Return the run's trainer, and the name of its choice in each of these config groups."""
    return (run.trainer, *(str(select(run.config, f"{group}.name") or "") for group in groups))
