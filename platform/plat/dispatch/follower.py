"""Follow the newest attempts of runs through their growing spools, never through MLflow."""

from __future__ import annotations

import textwrap
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from plat.characters import one_line, row_blocks, wrapped
from plat.store.home import Home
from plat.store.run_directory.run_files import headline_of, load_meta
from plat.store.run_directory.spool import read_events, read_newest
from plat.trainer.finding import shown_metrics
from plat.units import duration, iteration, measured, percent

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


# A run in progress as every live screen shows it: its facts, the cells of its row, and the lines of a table.

LAST = ("step time", "time", "left")  # columns


@dataclass(frozen=True)
class View:
    """A run or a preparation. A cell is empty while its value is None.

    id                of the run; of a preparation that of its job
    state             as the screen names it
    step              iterations done; of a preparation the steps done that its log counts (51 of "step 51/1500")
    iterations        total iterations; of a preparation the total steps (1500)
    shown             label -> newest value of further metrics, shares from 0 to 1
    pace              mean seconds per step, over the last steps
    seconds           since it started here
    eta               expected seconds until its end
    note              of a run before its first event: its current activity; of a preparation: the last line of its log
    """

    id: str
    title: str
    state: str
    step: int | None = None
    iterations: int | None = None
    success: float | None = None
    shown: Mapping[str, float] = field(default_factory=dict)
    pace: float | None = None
    seconds: float | None = None
    eta: float | None = None
    note: str = ""
    kind: str = "run"

    @property
    def cells(self) -> dict[str, str]:
        """Column -> text of the row, "" where the run has no value, in the order in which they are shown."""
        pace = "" if self.pace is None else f"{self.pace:.2f} s"
        time, left = ("" if seconds is None else duration(seconds) for seconds in (self.seconds, self.eta))
        return {
            "state": self.state,
            "iteration": iteration(self.step, self.iterations),
            "success": percent(self.success),
            **{label: percent(value) for label, value in self.shown.items()},
            "step time": pace,
            "time": time,
            "left": left,
        }


def laid_out(views: Sequence[View], width: int) -> tuple[list[str], list[list[str]]]:
    """Return (header lines, lines of each row) of a table without empty columns; a line takes at most `width` columns.

    In a narrow terminal a name stands above its cells, and the header may be []. Below a row stands the run's note.
    """
    if not views:
        return [], []
    names, values = [one_line(view.title) for view in views], [view.cells for view in views]
    columns = [name for name in _columns(values) if name == "state" or any(row.get(name) for row in values)]
    facts = [[row.get(name, "") for name in columns] for row in values]
    texts = [[name, *row] for name, row in zip(names, facts, strict=True)]
    header, blocks = row_blocks(["run", *columns], texts, width)
    if not header:
        header, blocks = row_blocks(columns, facts, width, "  ")
        blocks = [[name, *block] for name, block in zip(names, blocks, strict=True)]
    for view, block in zip(views, blocks, strict=True):
        if view.kind == "run" and view.note:
            block += textwrap.wrap(one_line(view.note), max(1, width), initial_indent="  ", subsequent_indent="  ")
    return header, [[part for line in block for part in wrapped(line, width)] for block in blocks]


def _columns(rows: Sequence[Mapping[str, str]]) -> list[str]:
    """Return the columns of all rows; those that only some rows have stand before "step time"."""
    names = list(dict.fromkeys(name for row in rows for name in row))
    return [name for name in names if name not in LAST] + [name for name in LAST if name in names]
