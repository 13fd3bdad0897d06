"""A RunIO for tests that train in their own process: it keeps metrics in memory and never asks to stop."""

from __future__ import annotations

import time
from pathlib import Path


class MemoryIo:
    """`logged`: (step, metrics) in order; `times`: the monotonic time of each. `cache`: that of a home, if any."""

    def __init__(self, files: Path, cache: Path | None = None) -> None:
        self.files, self.cache, self.code = files, cache, None
        self.logged = list[tuple[int, dict[str, float]]]()
        self.times = list[float]()
        files.mkdir(exist_ok=True)

    def restore(self) -> None:
        return None

    def should_stop(self) -> bool:
        return False

    def log(self, step: int, metrics: dict[str, float], *, late: bool = False) -> None:
        self.logged.append((step, metrics))
        self.times.append(time.monotonic())
