"""A verdict as the terminal shows it."""

from __future__ import annotations

from plat_analysis.claims.engine import FEW, MANY, Verdict


def verdict(rows: int) -> Verdict:
    lines = [
        f"above zero in {rows} of {rows + 2}",
        *(f"task {at} +1.0" for at in range(rows)),
        "open in 2 of 9",
        "a",
        "b",
    ]
    return Verdict("open", lines=tuple(lines))


def test_of_many_rows_of_a_kind_the_first_are_shown():
    few, many = verdict(MANY), verdict(MANY + 1)
    assert few.brief == list(few.lines)
    assert many.brief == [*many.lines[: FEW + 1], f"and {MANY + 1 - FEW} more, in claims.json", *many.lines[-3:]]
