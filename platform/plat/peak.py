"""The peak of a run, its best evaluation, for trainer, command line and analysis alike."""

from __future__ import annotations

from collections.abc import Iterable


def is_higher(value: float, best: float) -> bool:
    """Return True if a value makes a new peak. The earliest of equal values stays, and NaN never makes one."""
    return value > best


def peak_of(curve: Iterable[tuple[int, float]]) -> tuple[int, float] | None:
    """Return the (step, value) of a curve's highest value, the first of equal ones; None if it has only NaN or nothing.

    The steps of the curve must rise.
    """
    peak: tuple[int, float] | None = None
    for step, value in curve:
        if value == value and (peak is None or is_higher(value, peak[1])):
            peak = step, value
    return peak
