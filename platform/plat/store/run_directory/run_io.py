"""Implement `plat.trainer.api.RunIO` with the files of one attempt.

All output goes into this attempt's folder. A checkpoint becomes visible only after every event up to its step is on
disk. `restore` returns the newest undamaged checkpoint of any attempt. It skips a checkpoint whose peak is damaged.
`load_peak` returns the run's peak or None, never an older peak.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from plat.errors import RunError
from plat.store.disk.durable import to_checked_json, write
from plat.store.run_directory.artifact_files import FACT, save_artifact
from plat.store.run_directory.checkpoint import (
    Notes,
    newest_own,
    prune,
    read_notes,
    save_checkpoint,
    state_at,
    valid_states,
)
from plat.store.run_directory.paths import AttemptPaths, RunPaths
from plat.store.run_directory.run_files import read_attempt_meta
from plat.store.run_directory.spool import SpoolWriter
from plat.trainer.api import HEADLINE, State, WriteFiles

log = logging.getLogger(__name__)


class FileRunIO:
    """The RunIO of one attempt.

    `step` and `success` (of the metric `headline`) are the newest that were logged or restored, None before. `events`
    is the number of events in the attempt's spool.
    """

    def __init__(
        self,
        paths: RunPaths,
        attempt: AttemptPaths,
        cache: Path,
        should_stop: Callable[[], bool],
        headline: str = HEADLINE,
    ) -> None:
        self.cache = cache
        self.code: Path | None = None
        self.step: int | None = None
        self.success: float | None = None
        self.restored_step: int | None = None
        self._peak_step: int | None = None
        self._paths = paths
        self._attempt = attempt
        self._should_stop = should_stop
        self._headline = headline
        self._spool = SpoolWriter(attempt.events, paths.id)

    @property
    def files(self) -> Path:
        self._paths.files.mkdir(exist_ok=True)
        return self._paths.files

    @property
    def events(self) -> int:
        return self._spool.count

    def facts(self, facts: Mapping[str, Any]) -> None:
        for attempt in self._paths.attempts():
            if attempt.number < self._attempt.number and newest_own(attempt.checkpoints) is not None:
                _compare_facts(read_facts(attempt), facts, attempt)
        self._record_facts(facts)

    def status(self, text: str) -> None:
        with contextlib.suppress(OSError):  # later writes report a full disk
            write(self._attempt.status, text.encode(), sync=False)

    def log(self, step: int, metrics: Mapping[str, float], *, late: bool = False) -> None:
        is_late = late and self.step is not None and 0 <= step <= self.step
        if not is_late:
            self._advance(step)
        self._spool.append(step, metrics, late=is_late)
        if self._headline in metrics:
            self.success = float(metrics[self._headline])

    def table(self, name: str, step: int, data: Any) -> None:
        self._advance(step)
        self._spool.table(name, step, data)

    def save(self, step: int, state: State, *, peak: bool = False, write_files: WriteFiles | None = None) -> None:
        self._advance(step)
        self._spool.sync()
        peak_step = step if peak else self._peak_step
        notes = Notes(self._spool.count, peak_step, self.success)
        save_checkpoint(self._attempt.checkpoints, step, state, peak, notes, write_files)
        self._peak_step = peak_step
        prune(self._attempt.checkpoints)

    def artifact(self, name: str, write_files: WriteFiles) -> None:
        kept = save_artifact(self._attempt, name, write_files)
        self._record_facts({f"{FACT}{name}": kept.sha256})

    def restore(self) -> tuple[int, State] | None:
        folders = self._folders()
        for step, path, state in valid_states(folders):
            notes = read_notes(path)
            peak_step = notes.peak_step
            if peak_step is not None and peak_step != step and state_at(folders, peak_step) is None:
                log.warning("the peak checkpoint of step %d is gone or damaged; %s is not used", peak_step, path)
                continue  # a run resumed from here would end without its peak
            origin = {"restored_step": step, "restored_from": "/".join(path.parts[-4:])}  # the path below the run's
            write(self._attempt.meta, to_checked_json({**read_attempt_meta(self._attempt), **origin}))
            self.step = self.restored_step = step
            self._peak_step, self.success = peak_step, notes.success
            return step, state
        return None

    def load_peak(self) -> tuple[int, State] | None:
        if self._peak_step is None:  # no peak yet
            return next(((step, state) for step, _, state in valid_states(self._folders(), peak=True)), None)
        state = state_at(self._folders(), self._peak_step)
        return None if state is None else (self._peak_step, state)

    def should_stop(self) -> bool:
        return self._should_stop() or self._paths.cancel.exists()

    def sync(self) -> None:
        self._spool.sync()

    def close(self) -> None:
        """Make everything logged durable and close the spool."""
        try:
            self._spool.sync()
        finally:
            self._spool.close()

    def _record_facts(self, facts: Mapping[str, Any]) -> None:
        recorded = {**read_facts(self._attempt), **facts}
        write(self._attempt.meta, to_checked_json({**read_attempt_meta(self._attempt), "facts": recorded}))

    def _folders(self) -> list[Path]:
        return [attempt.checkpoints for attempt in self._paths.attempts()]

    def _advance(self, step: int) -> None:
        """Set the current step. Raises RunError if it is no whole number >= 0, or is below the current step."""
        # A checkpoint at step s promises that all events of steps <= s are logged.
        if step != int(step) or step < 0 or (self.step is not None and step < self.step):
            raise RunError(f"the trainer logged step {step} after step {self.step}", fix="log steps in rising order")
        self.step = int(step)


def read_facts(attempt: AttemptPaths) -> dict[str, Any]:
    """Return the facts that the attempt recorded with `RunIO.facts`; {} if there are none."""
    return read_attempt_meta(attempt).get("facts") or {}


def _compare_facts(earlier: Mapping[str, Any], now: Mapping[str, Any], attempt: AttemptPaths) -> None:
    """Raise RunError if a fact in both has different values."""
    for name, value in now.items():
        if name in earlier and earlier[name] != value:
            raise RunError(
                f"this run cannot be resumed: {name} was {earlier[name]!r} in attempt {attempt.number}, "
                f"now it is {value!r}",
                where=str(attempt.meta),
                fix="bring back what it started from, or remove the run's directory and sweep again to start it anew",
            )
