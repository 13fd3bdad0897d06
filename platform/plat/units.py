"""Format durations, sizes, shares, steps and counts as text."""

from __future__ import annotations

import math
import re

from plat.errors import SpecError


def duration(seconds: float | None) -> str:
    """Format seconds: 0.31 -> "0.3 s", 12 -> "12 s", 750 -> "12.5 min", 9000 -> "2.5 h"; "?" for None or NaN."""
    if seconds is None or math.isnan(seconds):
        return "?"
    if seconds < 100:
        return f"{seconds:.1f} s" if 0 < seconds < 9.95 else f"{seconds:.0f} s"
    return f"{seconds / 60:.1f} min" if seconds < 6000 else f"{seconds / 3600:.1f} h"


def seconds_of(text: str, where: str) -> float:
    """Return the seconds of a time: "90s" -> 90, "30m" -> 1800, "1.5h" -> 5400. Raises SpecError for another text."""
    found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*(s|m|min|h|d)\s*", text)
    if found is None or not float(found[1]):
        raise SpecError(f"{text!r} is no time", where=where, fix="give a number with s, m, h or d, such as 30m")
    return float(found[1]) * {"s": 1, "m": 60, "min": 60, "h": 3600, "d": 86400}[found[2]]


def counted(number: float, noun: str) -> str:
    """Return the number with its noun: 1 -> "1 run", 3 -> "3 runs", 0.5 -> "0.5 runs"."""
    return f"{number} {noun}{'s' if number != 1 else ''}"


def are(number: int) -> str:
    """Return the verb for a count: 1 -> "is", 3 -> "are"."""
    return "is" if number == 1 else "are"


def were(number: int) -> str:
    """Return the verb for a count in the past: 1 -> "was", 3 -> "were"."""
    return "was" if number == 1 else "were"


def size(count: float) -> str:
    """Format a number of bytes: "512 B", "80.0 kB", "1.2 GB"."""
    for unit in ("B", "kB", "MB"):
        if count < 1000:
            return f"{count:.0f} {unit}" if count >= 100 or unit == "B" else f"{count:.1f} {unit}"
        count /= 1000
    return f"{count:.0f} GB" if count >= 100 else f"{count:.1f} GB"


def percent(share: float | None) -> str:
    """Format a share: 0.125 -> "12.5 %"; "" for None. A number outside of [0, 1] is no share: 91.25 -> "91.25"."""
    if share is None:
        return ""
    return f"{100 * share:.1f} %" if not share < 0 and not share > 1 else f"{share:.4g}"


def measured(metric: str, value: float | None) -> str:
    """Format a metric with its name: ("val_loss", 0.31234) -> "val_loss 0.3123"; "" without a name or value."""
    return f"{metric} {value:.4g}" if metric and value is not None else ""


def iteration(step: int | None, iterations: int | None) -> str:
    """Format a step: (3, 30) -> "3/30", (3, None) -> "3"; "" before the first step."""
    if step is None:
        return ""
    return f"{step}/{iterations}" if iterations else str(step)
