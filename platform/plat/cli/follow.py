"""How the runs that go on are doing, read from their spools as they grow, never from MLflow: for `plat watch`."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from plat.cli.entries import Entry, counts
from plat.store.home import Home
from plat.store.run_directory.files import headline_of, load_meta
from plat.store.run_directory.spool import Event
from plat.store.run_directory.spool_follower import SpoolFollower
from plat.text import one_line
from plat.trainer.api import RETRIEVAL
from plat.units import duration, percent

GOING_ON = ("running", "queued", "preparing")
ORDER = ("running", "preparing", "queued", "unknown", "failed", "interrupted", "missing", "done")
WINDOW = 20  # steps over which the time of a step is averaged


@dataclass(frozen=True)
class Progress:
    """One run and how it is doing.

    step_seconds  mean over the last WINDOW steps, None before the second step
    seconds_left  expected until its last step
    """

    entry: Entry
    step: int | None = None
    iterations: int | None = None
    success: float | None = None
    retrieval: float | None = None
    step_seconds: float | None = None

    @property
    def seconds_left(self) -> float | None:
        if self.step is None or self.iterations is None or self.step_seconds is None:
            return None
        return max(0, self.iterations - self.step) * self.step_seconds


class Follower:
    """Follows the runs of a home. Each call of `progress` reads what the spools have gained since the last one."""

    def __init__(self, home: Home) -> None:
        self._home = home
        self._attempts: dict[str, _Attempt] = {}

    def progress(self, entries: Sequence[Entry]) -> list[Progress]:
        """How these runs are doing; of one that does not run, what its state says."""
        return [self._progress(entry) for entry in entries]

    def _progress(self, entry: Entry) -> Progress:
        state = entry.state
        if state.state != "running":
            self._attempts.pop(entry.id, None)
            return Progress(entry, state.step, state.iterations, state.success)
        attempt = self._attempt(entry.id)
        if attempt is None:
            return Progress(entry, None, state.iterations)
        pace = attempt.step_seconds()
        return Progress(entry, attempt.step, state.iterations, attempt.success, attempt.retrieval, pace)

    def _attempt(self, run_id: str) -> _Attempt | None:
        """The newest attempt of a run, read to the end of its spool; None before the first."""
        paths = self._home.run(run_id)
        attempts = paths.attempts()
        if not attempts:
            return None
        attempt = self._attempts.get(run_id)
        if attempt is None or attempt.path != attempts[-1].events:
            attempt = self._attempts[run_id] = _Attempt(attempts[-1].events, headline_of(load_meta(paths)))
        attempt.update()
        return attempt


class _Attempt(SpoolFollower):
    """The progress of the attempt that a run is at, with its newest retrieval and the time of its last steps."""

    def __init__(self, events: Path, headline: str) -> None:
        super().__init__(events, headline)
        self.retrieval: float | None = None
        self._ends: deque[tuple[int, float]] = deque(maxlen=WINDOW + 1)  # (step, when its last event was written)

    def update(self) -> list[Event]:
        events = super().update()
        for event in events:
            self.retrieval = event.metrics.get(RETRIEVAL, self.retrieval)
            if self._ends and self._ends[-1][0] == event.step:
                self._ends.pop()
            self._ends.append((event.step, event.time))
        return events

    def step_seconds(self) -> float | None:
        """The mean time of the last WINDOW steps; None before the second step."""
        if len(self._ends) < 2:
            return None
        (first, began), (last, ended) = self._ends[0], self._ends[-1]
        return max(0.0, ended - began) / (last - first) if last > first else None


def is_going_on(entries: Sequence[Entry]) -> bool:
    """Whether anything may still change by itself."""
    return any(entry.state.state in GOING_ON for entry in entries)


def ordered(progress: Sequence[Progress]) -> list[Progress]:
    """What goes on first, what is done last."""
    return sorted(progress, key=lambda item: ORDER.index(item.entry.state.state))


def cells(progress: Progress) -> tuple[str, ...]:
    """State, iteration, success, retrieval, seconds per step, time left."""
    step = "" if progress.step is None else f"{progress.step}/{progress.iterations or '?'}"
    pace = "" if progress.step_seconds is None else f"{progress.step_seconds:.2f} s"
    left = "" if progress.seconds_left is None else duration(progress.seconds_left)
    return (progress.entry.state.state, step, percent(progress.success), percent(progress.retrieval), pace, left)


def describe(progress: Progress) -> str:
    """One run in a line, e.g. `NAME  running  iteration 3/30  success 12.5 %`; at its end what a starting run does."""
    words = ("", "iteration ", "success ", "retrieval ", "step ", "left ")
    facts = [f"{word}{cell}" for word, cell in zip(words, cells(progress), strict=True) if cell]
    return one_line("  ".join([progress.entry.name, *facts, *filter(None, [progress.entry.state.starting])]))


def totals(entries: Sequence[Entry], progress: Sequence[Progress]) -> str:
    """The counts, and when the last of the running runs is expected to end."""
    left = [run.seconds_left for run in progress if run.seconds_left is not None and run.entry.state.state == "running"]
    running = Counter(entry.state.state for entry in entries)["running"]
    ending = f" · running ones end in about {duration(max(left))}" if running and left else ""
    return counts(entry.state for entry in entries) + ending
