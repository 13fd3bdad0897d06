"""Lengths of time, sizes, shares and numbers of things in words."""

from __future__ import annotations

import math


def duration(seconds: float | None) -> str:
    """0.31 -> "0.3 s", 12 -> "12 s", 750 -> "12.5 min", 9000 -> "2.5 h"; "?" when it is not known."""
    if seconds is None or math.isnan(seconds):
        return "?"
    if seconds < 100:
        return f"{seconds:.1f} s" if 0 < seconds < 9.95 else f"{seconds:.0f} s"
    return f"{seconds / 60:.1f} min" if seconds < 6000 else f"{seconds / 3600:.1f} h"


def counted(number: int, noun: str) -> str:
    """1 -> "1 run", 3 -> "3 runs"."""
    return f"{number} {noun}{'s' if number != 1 else ''}"


def are(number: int) -> str:
    """The verb behind so many things: 1 -> "is", 3 -> "are"."""
    return "is" if number == 1 else "are"


def size(count: float) -> str:
    """A number of bytes: "512 B", "80.0 kB", "1.2 GB"."""
    for unit in ("B", "kB", "MB"):
        if count < 1000:
            return f"{count:.0f} {unit}" if count >= 100 or unit == "B" else f"{count:.1f} {unit}"
        count /= 1000
    return f"{count:.0f} GB" if count >= 100 else f"{count:.1f} GB"


def percent(share: float | None) -> str:
    """0.125 -> "12.5 %"; "" when there is none."""
    return "" if share is None else f"{100 * share:.1f} %"
