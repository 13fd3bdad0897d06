"""Decide what of the logged metrics becomes the history of a run.

The last value of a metric at a step counts. So the newest value of each metric waits until the metric has a higher
step, or until the script has ended. A checkpoint keeps what waits, so that a resumed run gives the same history.
"""

from __future__ import annotations

import math
from collections import Counter, deque
from collections.abc import Mapping
from typing import Any, NamedTuple

from plat.errors import RunError
from plat.trainer.api import RunIO
from plat.trainer.script.readers.objects import Logged, same
from plat.trainer.script.readers.text import WORDS

FIX = (
    "let steps rise, and one process and one run of a logger write a metric; a script that starts again resumes from "
    "PLAT_CHECKPOINT_DIR"
)
STEPS, WAITING = "steps", "waiting"  # in the meta of a checkpoint


class Newest(NamedTuple):
    """The newest value of a metric, which waits."""

    step: int
    value: float


class Recorder:
    """Log metrics in the order of their times, and none that an earlier attempt has logged.

    step        the newest, None before the first
    has_logged  True if there was a metric
    has_new     True if there was one in this attempt
    notes       sentences about values that were replaced or contradict each other

    restored, kept   step and meta of the checkpoint that the attempt resumes from
    """

    def __init__(self, io: RunIO, restored: int | None, kept: Mapping[str, Any] | None = None) -> None:
        self._io = io
        self._queue: deque[Logged] = deque()
        self.step = restored
        self.has_logged = restored is not None
        self.has_new = False
        self._top = -1 if restored is None else restored  # the highest step that was logged
        self._saved = self._top  # the step of the newest checkpoint
        # an old checkpoint keeps one step for all metrics
        self._floor: int | None = restored if not kept or STEPS not in kept else None
        self._steps: dict[str, int] = dict((kept or {}).get(STEPS, {}))  # metric -> its newest step that was logged
        waiting = (kept or {}).get(WAITING, {})
        self._waiting = {name: Newest(int(step), float(text)) for name, (step, text) in waiting.items()}
        self._before = dict(self._steps)  # what an earlier attempt has logged
        self._replaced: Counter[str] = Counter()
        self._contradicted: dict[str, str] = {}  # metric -> the first contradiction
        self._counters: dict[str, str] = {}  # metric -> the name that counts its newest step

    def add(self, logged: Logged) -> None:
        """Keep the metrics of one line until the next `log`."""
        self.has_logged = self.has_new = True
        self._queue.append(logged)

    def log(self, until: float | None = None) -> None:
        """Take what is from before `until`, a time; None: all. Raises RunError if a step of a metric falls."""
        while self._queue and (until is None or self._queue[0].time <= until):
            self._take(self._queue.popleft())

    def finish(self) -> None:
        """Log the values that wait. Raises RunError as `log` does."""
        self.log()
        self._write(list(self._waiting))

    def kept(self) -> dict[str, Any]:
        """Return what a checkpoint at `step`, which is to be saved now, must keep (JSON-able)."""
        self._saved = -1 if self.step is None else self.step
        waiting = {name: [newest.step, repr(newest.value)] for name, newest in self._waiting.items()}
        return {STEPS: self._steps, WAITING: waiting}

    @property
    def notes(self) -> list[str]:
        found = []
        if self._replaced:
            names = ", ".join(f"{name} ({count})" for name, count in self._replaced.most_common(5))
            more = ", ..." * (len(self._replaced) > 5)
            found.append(f"values that a later one of the same step replaced: {names}{more}")
        return [*found, *self._contradicted.values()]

    def _take(self, logged: Logged) -> None:
        floor, step = self._floor, logged.step
        rising: dict[str, float] = {}
        for name, value in logged.metrics.items():
            newest = self._waiting.get(name)
            if newest is not None and step == newest.step:
                if logged.look == "first" and not same(value, newest.value):
                    self._replaced[name] += 1
                self._waiting[name] = Newest(step, value)
            elif newest is None and step <= (floor if floor is not None else self._before.get(name, -1)):
                continue  # an earlier attempt has logged it
            elif newest is None or step > newest.step:
                rising[name] = value
            elif step <= self._before.get(name, -1):
                continue
            else:
                self._fallen(name, value, newest, logged)
        self._write([name for name in rising if name in self._waiting])
        self._waiting |= {name: Newest(step, value) for name, value in rising.items()}
        self._counters |= dict.fromkeys(rising, logged.counter)
        if rising:
            self.step = max(step, -1 if self.step is None else self.step)

    def _fallen(self, name: str, value: float, newest: Newest, logged: Logged) -> None:
        """Deal with a step below the newest one of its metric."""
        if logged.look == "first":
            by = self._counters.get(name, logged.counter)
            how = "" if by == logged.counter else f", which it logs by {by} and by {logged.counter}"
            never = Newest(0, math.inf)
            risen = (each for each, newer in logged.metrics.items() if newer > self._waiting.get(each, never).value)
            outer = next((each for each in risen if each.lower() in WORDS), "")
            fix = f"steps begin anew in each {outer}: script.step: {outer.lower()}" if outer else FIX
            raise RunError(f"the script logged step {logged.step} after step {newest.step} of {name}{how}", fix=fix)
        if logged.look == "found":
            self._io.log(logged.step, {name: value}, late=True)
            return
        what = f"{name} at step {logged.step} was shown with another value later ({value:g}); the first one is kept"
        self._contradicted.setdefault(name, what)

    def _write(self, names: list[str]) -> None:
        """Log the waiting values of these metrics."""
        groups: dict[int, dict[str, float]] = {}
        for name in names:
            newest = self._waiting.pop(name)
            groups.setdefault(newest.step, {})[name] = newest.value
            self._steps[name] = newest.step
        for step, metrics in sorted(groups.items()):
            if step < self._top or step <= self._saved:  # the checkpoint does not cover it
                self._io.log(step, metrics, late=True)
            else:
                self._io.log(step, metrics)
            self._top = max(self._top, step)
