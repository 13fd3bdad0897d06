"""Lengths of time, sizes, shares and numbers of things in words."""

from __future__ import annotations

import math

from plat.units import are, counted, duration, percent, size


def test_lengths_of_time() -> None:
    assert [duration(seconds) for seconds in (0, 0.31, 9.95, 59.6, 99)] == ["0 s", "0.3 s", "10 s", "60 s", "99 s"]
    assert [duration(seconds) for seconds in (600, 5399, 12000)] == ["10.0 min", "90.0 min", "3.3 h"]
    assert (duration(None), duration(math.nan)) == ("?", "?")


def test_sizes() -> None:
    assert [size(count) for count in (0, 999, 1500, 8e6)] == ["0 B", "999 B", "1.5 kB", "8.0 MB"]
    assert [size(count) for count in (123_456, 2.5e9, 1e13)] == ["123 kB", "2.5 GB", "10000 GB"]


def test_shares() -> None:
    assert (percent(0.125), percent(None)) == ("12.5 %", "")


def test_numbers_of_things() -> None:
    assert [f"{counted(number, 'run')} {are(number)}" for number in (0, 1, 2)] == [
        "0 runs are",
        "1 run is",
        "2 runs are",
    ]
