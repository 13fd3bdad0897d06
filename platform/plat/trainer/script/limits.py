"""Notice that a script takes too long, or that it shows no sign of life: no output and no new files."""

from __future__ import annotations

import contextlib
import os
import time
from pathlib import Path

from plat.errors import RunError
from plat.trainer.script.config import ScriptConfig

Newest = tuple[int, int]


class Limits:
    """The limits `script.timeout` and `script.stall` of a script that starts now. `files`: the folder of its files."""

    def __init__(self, config: ScriptConfig, files: Path) -> None:
        self._config, self._files = config, files
        self._started = self._alive = time.monotonic()
        self._newest = _newest(files)

    def passed(self, heard: float) -> RunError | None:
        """Return the error for a limit that has passed, None if there is none. `heard`: when output last came."""
        now, limit, silence = time.monotonic(), self._config.timeout, self._config.stall
        if 0 < limit < now - self._started:
            what = f"the script still ran after {limit:g} s, its script.timeout"
            return RunError(what, fix="raise script.timeout, then `plat retry`; the output is in the run's log")
        self._alive = max(self._alive, heard)
        if not 0 < silence < now - self._alive:
            return None
        newest = _newest(self._files)  # looked at only now, because there may be many files
        if newest != self._newest:
            self._newest, self._alive = newest, now
            return None
        what = f"the script had no output and wrote no file for {silence:g} s"
        fix = "find where it hangs, or raise script.stall if it needs that long"
        return RunError(what, fix=fix, failure_class="stalled")


def _newest(folder: Path) -> Newest:
    """Return the number of files below a folder and the newest of their times."""
    times = [0]
    for parent, _, names in os.walk(folder):
        for name in names:
            with contextlib.suppress(OSError):
                times.append(os.stat(f"{parent}/{name}").st_mtime_ns)
    return len(times), max(times)
