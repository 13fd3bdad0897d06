"""Follows the spool of an attempt that runs: its newest step and success, brought up to date without reading twice."""

from __future__ import annotations

from pathlib import Path

from plat.store.run_directory.spool import Event, read_events
from plat.store.run_directory.spool_tail import Newest, read_newest


class SpoolFollower:
    """The newest values in the spool of one attempt.

    path      the spool; it need not be there yet
    headline  the metric whose newest value is `success`
    from_end  start with the newest values in the file, which is quick however long it is; `update` then gives later
              events alone. Otherwise the first `update` gives all events
    step      the newest step, None before the first
    """

    def __init__(self, path: Path, headline: str, *, from_end: bool = False) -> None:
        newest = read_newest(path, headline) if from_end else Newest()
        self.path = path
        self.step = newest.step
        self.success = newest.value
        self._headline = headline
        self._offset = newest.offset

    def update(self) -> list[Event]:
        """Read what was appended since the last call; the events of it that are not damaged."""
        events, self._offset = read_events(self.path, self._offset)
        intact = [event for event in events if not event.is_damaged]
        for event in intact:
            self.step = event.step if self.step is None else max(self.step, event.step)
            self.success = event.metrics.get(self._headline, self.success)
        return intact
