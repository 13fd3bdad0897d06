"""Estimate the cost of what is left of a run from similar runs of this home.

The runner appends one line per finished run and per preparation to history.jsonl. The estimate is the median seconds
per iteration of runs with the same trainer and scale, and the same values of as many of the first keys of
`Trainer.cost_keys` as possible. Where a config states no number of iterations, as of a script, it is the median
seconds of whole runs. Without such runs it is unknown; a preparation then takes DEFAULT_PREPARE_SECONDS.
"""

from __future__ import annotations

import contextlib
import functools
import os
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from math import inf
from pathlib import Path
from statistics import median
from typing import Any

from plat.plain_files import json_objects, open_regular
from plat.runner.attempt import cost_facts
from plat.spec.composition.trainer_calls import checked_call
from plat.spec.expansion.decide import REPLICATES
from plat.spec.expansion.experiment import Experiment, Run, config_object
from plat.spec.identity.run_identity import canonical
from plat.store.home import Home
from plat.store.run_directory.paths import RunPaths
from plat.store.run_directory.run_files import read_attempt_meta
from plat.store.run_directory.state import RunState
from plat.trainer.api import has_own
from plat.trainer.finding import find_trainer
from plat.trainer.resources import Resources
from plat.words.usage import Usage

DEFAULT_PREPARE_SECONDS = 30.0  # one base model on one CPU core
DEFAULT_RUN_BYTES = 8_000_000  # three checkpoints with optimiser state, spool and log
NEWEST = 50  # runs of a kind used for its estimate
HISTORY_TAIL = 4_000_000  # bytes of history.jsonl that are read

Facts = tuple[Any, ...]


class History:
    """Measured wall times of earlier runs, grouped by the facts that runs share. `lines`: those of history.jsonl."""

    def __init__(self, lines: Iterable[dict[str, Any]]) -> None:
        self.rates: dict[Facts, list[float]] = defaultdict(list)
        self.whole: dict[Facts, list[tuple[float, int]]] = defaultdict(list)  # seconds and last step of whole runs
        self.used: dict[Facts, list[Usage]] = defaultdict(list)
        self.prepared: dict[str, float] = {}
        for line in lines:
            wall, iterations = line.get("wall"), line.get("iterations")
            if not isinstance(wall, (int, float)) or not 0 <= wall < inf:
                continue
            if line.get("prepare"):
                self.prepared[str(line["prepare"])] = float(wall)
            elif isinstance(iterations, int) and iterations >= 0:
                cost = line.get("cost")
                known = cost if isinstance(cost, dict) else {}
                for key in _keys(line.get("trainer"), line.get("scale"), known.items()):
                    if iterations:
                        self.rates[key].append(wall / iterations)
                    if iterations or line.get("spent") == wall:  # else an attempt that had nothing left to do
                        self.whole[key].append((float(wall), iterations))
                    if isinstance(line.get("usage"), dict):
                        self.used[key].append(Usage.of(line["usage"]))
        self._percentiles: dict[Facts, tuple[float, float] | None] = {}
        self._trainer = functools.cache(find_trainer)  # there may be 100,000 runs, and few trainers
        self._iterations = functools.cache(lambda trainer: checked_call(find_trainer(trainer), "iterations"))

    @classmethod
    def read(cls, path: Path) -> History:
        """Read the newest lines of history.jsonl. Damaged lines are skipped; a missing file counts as empty."""
        try:
            with open_regular(path) as file:
                file.seek(max(0, file.seek(0, os.SEEK_END) - HISTORY_TAIL))
                return cls(json_objects(file.read()))
        except OSError:
            return cls([])

    def seconds(self, run: Run, done: int, rate_so_far: float | None = None) -> float | None:
        """Return the expected seconds of what is left of a run; None if no similar run was measured here.

        `done` counts iterations. `rate_so_far`, the run's own seconds per iteration, takes precedence over other runs.
        """
        spread = self.spread(run, done, rate_so_far)
        return spread and spread[0]

    def spread(self, run: Run, done: int, rate_so_far: float | None = None) -> tuple[float, float] | None:
        """Return the median and 90th percentile of what `seconds` returns; with `rate_so_far`, both are the same."""
        trainer = self._trainer(run.trainer)
        iterations = self._iterations(run.trainer)(run.config)
        if iterations is None:
            return self._spread_of_whole_runs(run, done, rate_so_far)
        left = max(0, iterations - done)
        if rate_so_far is not None:
            return left * rate_so_far, left * rate_so_far
        if not self.rates:
            return None
        for key in _keys(run.trainer, run.config.get("scale"), cost_facts(run.config, trainer).items()):
            rates = self._rates(key)
            if rates is not None:
                return left * rates[0], left * rates[1]
        return None

    def _spread_of_whole_runs(self, run: Run, done: int, rate_so_far: float | None) -> tuple[float, float] | None:
        """Do what `spread` does for a run whose config states no number of iterations."""
        facts = cost_facts(run.config, self._trainer(run.trainer))
        for key in _keys(run.trainer, run.config.get("scale"), facts.items()):
            if newest := self.whole.get(key, [])[-NEWEST:]:
                last = median(step for _, step in newest)
                if rate_so_far is not None:
                    return max(0.0, last - done) * rate_so_far, max(0.0, last - done) * rate_so_far
                seconds, left = sorted(wall for wall, _ in newest), max(0.0, 1 - done / last) if last else 1.0
                return left * median(seconds), left * _percentile(seconds, 0.9)
        return None

    def usage(self, run: Run, seconds: float) -> Usage:
        """Return what a run will use in these seconds, if it uses as much per second as similar runs here did.

        GPU time counts the GPUs that the run asks for. A number that no similar run has measured is None.
        """
        needed = Resources.of(run.resources)
        gpu_seconds = seconds * needed.gpus * max(1, needed.nodes)
        facts = cost_facts(run.config, self._trainer(run.trainer))
        for key in _keys(run.trainer, run.config.get("scale"), facts.items()):
            if newest := [one for one in self.used.get(key, ())[-NEWEST:] if one.seconds > 0]:
                cpu, cpu_kwh, gpu_kwh = (
                    seconds * median(rates) if (rates := _rates(newest, name)) else None
                    for name in ("cpu_seconds", "cpu_kwh", "gpu_kwh")
                )
                return Usage(seconds, cpu, gpu_seconds, cpu_kwh, gpu_kwh if gpu_seconds else 0.0)
        return Usage(seconds, None, gpu_seconds, None, None if gpu_seconds else 0.0)

    def note(self, run: Run, rate: float) -> None:
        """Count the seconds per iteration of an unfinished run among those of similar runs."""
        facts = cost_facts(run.config, find_trainer(run.trainer))
        for key in _keys(run.trainer, run.config.get("scale"), facts.items()):
            self.rates[key].append(rate)
        self._percentiles.clear()

    def _rates(self, key: Facts) -> tuple[float, float] | None:
        """Return the median and 90th percentile of the seconds per iteration of the newest runs of a kind."""
        if key not in self._percentiles:
            newest = sorted(self.rates[key][-NEWEST:]) if key in self.rates else []
            self._percentiles[key] = (median(newest), _percentile(newest, 0.9)) if newest else None
        return self._percentiles[key]

    def preparation_seconds(self, job: str) -> float:
        """Return the expected seconds of job "prepare:<trainer>:<key>": measured, else the median of all, else 30."""
        usual = median(self.prepared.values()) if self.prepared else DEFAULT_PREPARE_SECONDS
        return self.prepared.get(job, usual)

    def unprepared(self, runs: Iterable[Run], cache: Path) -> list[tuple[str, float]]:
        """Return (title, expected seconds) of the shared work whose result is not in the cache."""
        jobs = {(run.trainer, run.prepare[0]): run.prepare[1] for run in runs if run.prepare is not None}
        cached = cached_keys(cache)
        return [
            (title, self.preparation_seconds(f"prepare:{trainer}:{key}"))
            for (trainer, key), title in jobs.items()
            if key not in cached
        ]


def _rates(used: Iterable[Usage], name: str) -> list[float]:
    """Return a number of each usage per second of it; those without this number are left out."""
    return [value / one.seconds for one in used if (value := getattr(one, name)) is not None]


def _percentile(ordered: Sequence[float], share: float) -> float:
    """Return a percentile (`share` 0 to 1) of ordered values, interpolated between the two nearest."""
    place = share * (len(ordered) - 1)
    low = int(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (place - low) * (ordered[high] - ordered[low])


def rate_so_far(paths: RunPaths, state: RunState) -> float | None:
    """Return seconds per iteration of a run's newest attempt; None before its first iteration."""
    attempts = paths.attempts()
    if state.step is None or state.age is None or not attempts:
        return None
    attempt = read_attempt_meta(attempts[-1])
    iterations = state.step - (attempt.get("restored_step") or 0)
    try:
        seconds = attempts[-1].events.stat().st_mtime - float(attempt["time"])
    except (OSError, KeyError, TypeError, ValueError):
        return None
    return seconds / iterations if iterations > 0 and seconds > 0 else None


def disk_bytes(runs: Iterable[Run], usual: int) -> int:
    """Return the total bytes that these runs will keep on disk; a run counts as its trainer states, else as `usual`."""
    total = 0
    trainer_of = functools.cache(find_trainer)
    for run in runs:
        trainer = trainer_of(run.trainer)
        own = has_own(trainer, "disk_bytes")
        stated = checked_call(trainer, "disk_bytes")(config_object(run, trainer)) if own else None
        total += usual if stated is None else round(stated)
    return total


def cached_keys(cache: Path) -> set[str]:
    """Return the keys of everything in the cache: the names of cache/<kind>/<key>."""
    try:
        return {path.name for kind in cache.iterdir() if kind.is_dir() for path in kind.iterdir()}
    except OSError:
        return set()


def _keys(trainer: Any, scale: Any, facts: Iterable[tuple[str, Any]]) -> list[Facts]:
    """Return keys from the most to the least similar: all facts, then fewer, always with the trainer and scale."""
    similar = (trainer, scale, *((key, repr(value)) for key, value in facts))
    return [similar[:count] for count in range(len(similar), 1, -1)]


def bytes_per_run(home: Home, finished: Sequence[str]) -> int:
    """Return the mean size in bytes of the finished runs with these ids, or the default if there are none."""
    sizes = [_size_of(home.run(run_id).root) for run_id in finished]
    return round(sum(sizes) / len(sizes)) if sizes else DEFAULT_RUN_BYTES


def _size_of(folder: Path) -> int:
    total = 0
    for root, _, names in os.walk(folder):
        for name in names:
            with contextlib.suppress(OSError):
                total += os.stat(os.path.join(root, name)).st_size
    return total


# The order in which a sweep executes the runs of a file: each cell gets its first seed before any gets its second.


def in_order(experiment: Experiment) -> list[Run]:
    """Return the runs of a file as a sweep executes them. With `order: file`, and for a search, it is the file's."""
    if experiment.order == "file" or experiment.is_search:
        return experiment.runs
    before: Counter[str] = Counter()  # cell -> its replicates so far
    rounds: dict[str, int] = {}
    for run in experiment.runs:
        cell = canonical({name: value for name, value in run.axes.items() if name not in REPLICATES})
        rounds[run.id] = before[cell]
        before[cell] += 1
    return sorted(experiment.runs, key=lambda run: rounds[run.id])
