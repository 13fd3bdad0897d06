"""What is done, running and missing, and what the rest will cost. Writes nothing.

    plan = make_plan(experiments, home, jobs=2)
    plan.rows                 one per distinct run, in the order of the files
    plan.render()             the matrix as text
    plan.to_json()            the same for machines

Cost comes from history.jsonl, which the runner appends to: the median seconds per iteration of the most similar runs
(same trainer and scale; then, as far as there are any, same task, model, algorithm and filter). Before there is a
history, DEFAULT_SECONDS_PER_ITERATION and DEFAULT_PREPARE_SECONDS are assumed, and the plan says so. Wall time is the
total work divided by the number of workers, and at least the longest run.
"""

from __future__ import annotations

import json
import os
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import islice
from math import inf
from pathlib import Path
from statistics import median
from typing import Any

from plat.spec.experiment import Experiment, Run
from plat.store.home import Home
from plat.store.run_directory import STATES, RunState, iterations_of, run_state

DEFAULT_SECONDS_PER_ITERATION = 0.5  # of a stand-in at scale=laptop on one CPU core
DEFAULT_ITERATIONS = 40  # of a run whose config does not say
DEFAULT_PREPARE_SECONDS = 30.0  # one base model on one CPU core
DEFAULT_RUN_BYTES = 8_000_000  # three checkpoints with optimiser state, spool and log
HISTORY_TAIL = 4_000_000  # bytes of history.jsonl that are read
SAMPLED = 5  # finished runs whose size is measured
SYMBOLS = {"done": "●", "running": "▶", "unknown": "?", "failed": "✗", "interrupted": "◐", "missing": "·"}
PER_CELL = 6  # runs drawn one by one in a cell of the matrix

Facts = tuple[Any, ...]


@dataclass(frozen=True)
class PlanRow:
    """One run; `seconds` is the work still to do, `experiments` the files that ask for it."""

    run: Run
    state: RunState
    experiments: tuple[str, ...]
    seconds: float

    @property
    def id(self) -> str:
        return self.run.id

    def to_json(self) -> dict[str, Any]:
        return {
            "id": self.run.id,
            "name": self.run.name,
            "state": self.state.state,
            "axes": self.run.axes,
            "experiments": list(self.experiments),
            "trainer": self.run.trainer,
            "outcome": self.state.outcome,
            "step": self.state.step,
            "iterations": iterations_of(self.run.config),
            "success": self.state.success,
            "attempt": self.state.attempt,
            "seconds": round(self.seconds, 1),
        }


@dataclass(frozen=True)
class Plan:
    """The runs of some experiments and where they stand. `measured` counts runs whose cost has a history."""

    experiments: list[Experiment]
    rows: list[PlanRow]
    preparations: list[str]  # titles of shared work still to do
    workers: int
    work_seconds: float
    wall_seconds: float
    disk_bytes: int
    measured: int

    @property
    def counts(self) -> dict[str, int]:
        """State -> number of runs, every state named."""
        found = Counter(row.state.state for row in self.rows)
        return {state: found[state] for state in STATES}

    def to_json(self) -> dict[str, Any]:
        return {
            "runs": [row.to_json() for row in self.rows],
            "counts": self.counts,
            "experiments": [
                {"name": one.name, "title": one.title, "path": str(one.path), "paper": one.paper, "scale": one.scale}
                for one in self.experiments
            ],
            "cost": {
                "workers": self.workers,
                "work_seconds": round(self.work_seconds, 1),
                "wall_seconds": round(self.wall_seconds, 1),
                "disk_bytes": self.disk_bytes,
                "preparations": self.preparations,
                "measured_runs": self.measured,
                "basis": self.basis(),
            },
        }

    def basis(self) -> str:
        """Where the expected time comes from."""
        left = sum(1 for row in self.rows if row.state.state != "done")
        if not left:
            return "nothing left to do"
        if self.measured == left:
            return "measured on earlier runs here"
        default = f"{DEFAULT_SECONDS_PER_ITERATION:g} s per iteration assumed"
        return f"{default}, nothing measured here yet" if not self.measured else f"partly measured; elsewhere {default}"

    def render(self, verbose: bool = False) -> str:
        """The matrix of every experiment, the counts and the cost, as plain text."""
        by_id = {row.id: row for row in self.rows}
        parts = [line for experiment in self.experiments for line in _matrix(experiment, by_id)]
        used = [state for state in STATES if self.counts[state]]
        parts.append("   ".join(f"{SYMBOLS[state]} {self.counts[state]} {state}" for state in used))
        if verbose:
            width = max((len(row.run.name) for row in self.rows), default=0)
            parts += ["", *(_line(row, width) for row in self.rows)]
        return "\n".join([*parts, "", *self._cost()])

    def _cost(self) -> list[str]:
        left = [row for row in self.rows if row.state.state != "done"]
        if not left:
            return [f"Nothing to do: all {len(self.rows)} runs are done."]
        lines = []
        if self.preparations:
            lines.append(f"To prepare first: {', '.join(self.preparations)}")
        lines.append(
            f"{len(left)} of {len(self.rows)} runs to do: about {duration(self.wall_seconds)} with {self.workers} "
            f"worker{'s' if self.workers != 1 else ''} ({duration(self.work_seconds)} of work), "
            f"{size(self.disk_bytes)} of disk ({self.basis()})"
        )
        return lines


def make_plan(experiments: Sequence[Experiment], home: Home, *, jobs: int | None = None) -> Plan:
    """Where every distinct run of these experiments stands. `jobs`: workers at once (default: as the cores allow)."""
    wanted: dict[str, tuple[Run, list[str]]] = {}
    for experiment in experiments:
        for run in experiment.runs:
            wanted.setdefault(run.id, (run, []))[1].append(experiment.name)
    history = History.read(home.history)
    known = _entries(home.runs)
    rows, measured = [], 0
    for run, names in wanted.values():
        state = run_state(home.run(run.id)) if run.id in known else RunState("missing")
        seconds = 0.0
        if state.state != "done":
            seconds, found = history.seconds(run, state.step or 0)
            measured += found
        rows.append(PlanRow(run, state, tuple(names), seconds))
    left = [row for row in rows if row.state.state != "done"]
    preparing = history.unprepared(row.run for row in left)
    workers = jobs or _workers(left)
    work = sum(row.seconds for row in left) + sum(seconds for _, seconds in preparing)
    longest = max((row.seconds for row in left), default=0.0) + max((seconds for _, seconds in preparing), default=0.0)
    return Plan(
        experiments=list(experiments),
        rows=rows,
        preparations=[title for title, _ in preparing],
        workers=workers,
        work_seconds=work,
        wall_seconds=max(work / workers, longest),
        disk_bytes=len(left) * _bytes_per_run(home, rows),
        measured=measured,
    )


class History:
    """Measured wall times, by what a run has in common with earlier ones."""

    def __init__(self, lines: Iterable[dict[str, Any]]) -> None:
        self.rates: dict[Facts, list[float]] = defaultdict(list)
        self.prepared: dict[str, float] = {}
        for line in lines:
            wall, iterations = line.get("wall"), line.get("iterations")
            if not isinstance(wall, (int, float)) or not 0 <= wall < inf:
                continue
            if line.get("prepare"):
                self.prepared[str(line["prepare"])] = float(wall)
            elif isinstance(iterations, int) and iterations > 0:
                facts = [line.get(name) for name in ("trainer", "scale", "task", "model", "algorithm", "filter")]
                for key in _keys(facts):
                    self.rates[key].append(wall / iterations)
        self._medians: dict[Facts, float | None] = {}

    @classmethod
    def read(cls, path: Path) -> History:
        """The newest lines of history.jsonl; damaged ones are skipped, a missing file is empty."""
        try:
            with path.open("rb") as file:
                file.seek(max(0, file.seek(0, os.SEEK_END) - HISTORY_TAIL))
                raw = file.read().splitlines()
        except OSError:
            return cls([])
        lines = []
        for text in raw:
            try:
                found = json.loads(text)
            except ValueError:
                continue
            if isinstance(found, dict):
                lines.append(found)
        return cls(lines)

    def seconds(self, run: Run, done: int) -> tuple[float, bool]:
        """(expected seconds of what is left of a run, whether that was measured)."""
        iterations = iterations_of(run.config)
        left = max(0, (DEFAULT_ITERATIONS if iterations is None else iterations) - done)
        scale = run.config.get("scale")
        facts = [run.trainer, scale, *(_name(run.config, group) for group in ("task", "model", "algorithm", "filter"))]
        for key in _keys(facts):
            rate = self._median(key)
            if rate is not None:
                return left * rate, True
        return left * DEFAULT_SECONDS_PER_ITERATION, False

    def _median(self, key: Facts) -> float | None:
        if key not in self._medians:
            self._medians[key] = median(self.rates[key][-50:]) if key in self.rates else None
        return self._medians[key]

    def unprepared(self, runs: Iterable[Run]) -> list[tuple[str, float]]:
        """(title, expected seconds) of the shared work that was not done here before."""
        usual = median(self.prepared.values()) if self.prepared else DEFAULT_PREPARE_SECONDS
        jobs = {f"prepare:{run.trainer}:{run.prepare[0]}": run.prepare[1] for run in runs if run.prepare is not None}
        return [(title, usual) for job, title in jobs.items() if job not in self.prepared]


def _keys(facts: Sequence[Any]) -> list[Facts]:
    """From the most to the least similar: all facts, then fewer, but always the same trainer and scale."""
    return [tuple(facts[:count]) for count in range(len(facts), 1, -1)]


def _name(config: dict[str, Any], group: str) -> Any:
    found = config.get(group)
    return found.get("name") if isinstance(found, dict) else found


def _entries(folder: Path) -> set[str]:
    """Names in a folder, read once: most runs of a new plan have no directory."""
    try:
        return {entry.name for entry in os.scandir(folder)}
    except OSError:
        return set()


def _workers(left: Sequence[PlanRow]) -> int:
    """As many runs at once as the cores allow."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    threads = max((row.run.resources.get("threads", 1) for row in left), default=1)
    return max(1, min(cores // max(1, threads), len(left) or 1))


def _bytes_per_run(home: Home, rows: Sequence[PlanRow]) -> int:
    """The mean size of a few finished runs, or the default."""
    done = islice((row for row in rows if row.state.state == "done"), SAMPLED)
    sizes = [_size_of(home.run(row.id).root) for row in done]
    return round(sum(sizes) / len(sizes)) if sizes else DEFAULT_RUN_BYTES


def _size_of(folder: Path) -> int:
    total = 0
    for root, _, names in os.walk(folder):
        for name in names:
            try:
                total += os.stat(os.path.join(root, name)).st_size
            except OSError:
                continue
    return total


def _matrix(experiment: Experiment, by_id: dict[str, PlanRow]) -> list[str]:
    """One experiment as a table: an axis down, another across, the rest in each cell."""
    axes = experiment.axes
    wide = [name for name in axes if name != "seed" and len(axes[name]) > 1]
    across = "task" if "task" in wide else next(iter(wide[1:]), None)
    down = next((name for name in wide if name != across), None)
    if down is None:
        down, across = across, None
    cells: dict[tuple[str, str], list[str]] = defaultdict(list)
    for labels, run_id in experiment.cells or [(run.axes, run.id) for run in experiment.runs]:
        spot = (str(labels.get(down, "") if down else ""), str(labels.get(across, "") if across else ""))
        cells[spot].append(by_id[run_id].state.state)
    rows = list(dict.fromkeys(row for row, _ in cells))
    columns = list(dict.fromkeys(column for _, column in cells))
    table = [[down or "", *columns]]
    table += [[row, *(_cell(cells.get((row, column), [])) for column in columns)] for row in rows]
    widths = [max(len(line[index]) for line in table) for index in range(len(columns) + 1)]
    inside = [f"{name}: {_listed(axes[name])}" for name in axes if name not in (across, down)]
    lines = [f"{experiment.title}  [{experiment.name} · {experiment.scale}]"]
    if inside:
        lines.append("in each cell " + ", ".join(inside))
    for line in table:
        lines.append("  " + "  ".join(text.ljust(width) for text, width in zip(line, widths, strict=True)).rstrip())
    return [*lines, ""]


def _cell(states: list[str]) -> str:
    if len(states) <= PER_CELL:
        return "".join(SYMBOLS[state] for state in states)
    found = Counter(states)
    parts = [f"{SYMBOLS[state]}{found[state]}" for state in STATES if found[state] and state != "done"]
    return " ".join([f"{found['done']}/{len(states)}", *(part for part in parts if not part.startswith("·"))])


def _listed(values: Sequence[Any]) -> str:
    texts = [str(value) for value in values]
    return " ".join(texts) if len(texts) <= 8 else f"{len(texts)} values"


def _line(row: PlanRow, width: int) -> str:
    parts = [f"{SYMBOLS[row.state.state]} {row.run.name.ljust(width)}", row.state.outcome or row.state.state]
    if row.state.success is not None:
        parts.append(f"success {100 * row.state.success:.1f} %")
    if row.state.state != "done" and row.state.step:
        parts.append(f"at iteration {row.state.step}")
    return "  ".join(parts)


def duration(seconds: float) -> str:
    """A length of time in words: 45 s, 12 min, 3 h 20 min."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 90 else f"{minutes // 60} h {minutes % 60:02d} min"


def size(count: float) -> str:
    """A number of bytes in words: 80 kB, 1.2 GB."""
    for unit in ("B", "kB", "MB", "GB"):
        if count < 1000 or unit == "GB":
            return f"{count:.0f} {unit}" if count >= 100 or unit == "B" else f"{count:.1f} {unit}"
        count /= 1000
    raise AssertionError
