"""Follow the newest attempts of runs through their growing spools, never through MLflow."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from pathlib import Path

from plat.store.home import Home
from plat.store.run_directory.run_files import headline_of, load_meta
from plat.store.run_directory.spool import read_events
from plat.store.run_directory.spool_tail import read_newest
from plat.trainer.finding import shown_metrics
from plat.units import measured, percent

WINDOW = 20  # steps over which the time of a step is averaged
TAIL = 1 << 18  # bytes at the end of a spool that give the times of the last steps at the first look


class Attempt:
    """The newest values in the spool of one attempt. The first look takes as long for a long spool as for a short one.

    path       the spool, which may not exist yet
    step       newest step, None before the first
    success    newest value of the metric `headline`; `success` of an earlier attempt until there is one
    shown      newest value of each metric that the trainer shows beside it (`Trainer.shown`), by label
    metric     newest value of `script.metric` with its name, "" before the first
    """

    def __init__(
        self,
        path: Path,
        headline: str,
        success: float | None = None,
        own: str = "",
        shown: Mapping[str, str] | None = None,
    ) -> None:
        newest = read_newest(path, headline)
        self.path = path
        self.step = newest.step
        self.success = success if newest.value is None else newest.value
        self._headline, self._own, self._labels = headline, own, shown or {}
        values = {label: read_newest(path, metric).value for label, metric in self._labels.items()}
        self.shown = {label: value for label, value in values.items() if value is not None}
        self.metric = measured(own, read_newest(path, own).value) if own else ""
        self._offset = max(0, newest.offset - TAIL)
        self._ends: deque[tuple[int, float]] = deque(maxlen=WINDOW + 1)  # (step, when its last event was written)
        self.update()

    def update(self) -> None:
        """Read the events appended since the last call, except damaged ones."""
        events, self._offset = read_events(self.path, self._offset)
        for event in events:
            if event.is_damaged:  # also the line that TAIL has cut
                continue
            self.step = event.step if self.step is None else max(self.step, event.step)
            self.success = event.metrics.get(self._headline, self.success)
            self.metric = measured(self._own, event.metrics.get(self._own)) or self.metric
            self.shown |= {
                label: event.metrics[metric] for label, metric in self._labels.items() if metric in event.metrics
            }
            if self._ends and self._ends[-1][0] == event.step:
                self._ends.pop()
            self._ends.append((event.step, event.time))

    @property
    def measured(self) -> str:
        """Return for example `success 43.0 %` or `val_loss 0.3123`, "" before the first measurement."""
        success = "" if self.success is None else f"success {percent(self.success)}"
        return ", ".join(filter(None, [success, self.metric]))

    @property
    def pace(self) -> float | None:
        """Return the mean seconds per step, over the last WINDOW steps; None before the second step."""
        if len(self._ends) < 2:
            return None
        (first, began), (last, ended) = self._ends[0], self._ends[-1]
        return max(0.0, ended - began) / (last - first) if last > first else None

    def seconds_left(self, iterations: int | None) -> float | None:
        """Return the expected seconds until the last of `iterations`: (iterations - step) * pace; None if unknown."""
        pace = self.pace
        if self.step is None or not iterations or pace is None:
            return None
        return max(0, iterations - self.step) * pace


class Follower:
    """Follow runs of a home; each look reads only the new part of a spool."""

    def __init__(self, home: Home) -> None:
        self._home = home
        self._attempts: dict[str, Attempt] = {}

    def attempt(self, run_id: str) -> Attempt | None:
        """Return the newest attempt of a run, read to the end of its spool; None before the first."""
        paths = self._home.run(run_id)
        attempts = paths.attempts()
        if not attempts:
            return None
        known, events = self._attempts.get(run_id), attempts[-1].events
        if known is not None and known.path == events:
            known.update()
            return known
        earlier = None if known is None else known.success
        meta = load_meta(paths) or {}
        own, shown = str(meta.get("metric") or ""), shown_metrics(meta.get("trainer"))
        self._attempts[run_id] = Attempt(events, headline_of(meta), earlier, own, shown)
        return self._attempts[run_id]
