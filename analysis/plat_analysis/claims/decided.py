"""Decide a claim about several rows from p-values for it and against it in each row, whatever test they come from.

Each is one-sided at 2.5 %, divided by the number of planned looks. The claim is
- reproduced: every row is shown by its own test (the claim then holds falsely in at most 2.5 %);
- not reproduced: the opposite is shown in some row, by Holm's procedure over the rows;
- partial: some rows are shown, by Holm's procedure;
- undecided: none of these;
- not enough data: some row has a run missing, or too few units.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

from plat_analysis.claims.engine import Verdict
from plat_analysis.statistics.families import ERROR, holm
from plat_analysis.statistics.intervals import Estimate

LEVEL = ERROR / 2  # one-sided
SHOWN, OPPOSITE, OPEN, SHORT = "shown", "the opposite is shown", "not shown either way", "without enough data"
Tests = Mapping[str, Mapping[str, float]]  # kind, the claimed one first -> row -> p-value, of the rows with enough data


@dataclass(frozen=True)
class RowTests:
    """Hold the p-values of "the claim does not hold" and "the opposite does not hold" in a row, and the finding.

    p, opposite  None where there are too few units, or a run is missing
    line         the finding in words, with its interval: `grpo: −0.84 [−0.95, −0.73] over 10 blocks`
    estimate     its number
    """

    p: float | None
    opposite: float | None
    line: str
    estimate: Estimate = field(default_factory=Estimate)


def decide(rows: Mapping[str, RowTests], looks: int = 1) -> Verdict:
    """Return the verdict on all rows, without numbers and runs. The error is divided by `looks`, the planned looks."""
    tests: dict[str, dict[str, float]] = {SHOWN: {}, OPPOSITE: {}}
    for row, tested in rows.items():
        if tested.p is not None and tested.opposite is not None:
            tests[SHOWN][row], tests[OPPOSITE][row] = tested.p, tested.opposite
    kinds = row_kinds(rows, tests, LEVEL / looks)
    return settled(kinds, tests, {row: tested.line for row, tested in rows.items()})


def row_kinds(rows: Collection[str], tests: Tests, level: float) -> dict[str, str]:
    """Return row -> the first kind of `tests` that is shown in it, `OPEN` if none is, `SHORT` if it has no p-value.

    The first kind is the claimed one. If every row's own test shows it at `level`, all rows are of this kind. Otherwise
    Holm's procedure over the rows decides where a kind is shown.
    """
    claimed, *others = tests
    alone = tests[claimed]
    every = len(alone) == len(rows) and all(p <= level for p in alone.values())
    kinds = dict.fromkeys(rows, SHORT) | dict.fromkeys(alone, OPEN)
    for kind in reversed(others):
        kinds |= dict.fromkeys(shown(tests[kind], level), kind)
    return kinds | dict.fromkeys(alone if every else shown(alone, level), claimed)


def outcome(kinds: Mapping[str, str], tests: Tests, weak: str = "") -> tuple[str, str, float | None]:
    """Return the status of a claim, the kind of the rows that decided it, and the p-value of that over all rows.

    weak  a kind that counts against the claim only where no row is of the claimed kind
    """
    found, (claimed, *others) = set(kinds.values()), tests
    if not found or SHORT in found:
        return "not_enough_data", SHORT, None
    if found == {claimed}:
        return "reproduced", claimed, max(tests[claimed].values())
    against = [kind for kind in others if kind in found and (kind != weak or claimed not in found)]
    decisive = [*against, *(found & {claimed})]
    if not decisive:
        return "undecided", OPEN, None
    p = min(p for p in holm(list(tests[decisive[0]].values())) if p is not None)
    return "not_reproduced" if against else "partial", decisive[0], p


def settled(kinds: Mapping[str, str], tests: Tests, lines: Mapping[str, str], weak: str = "") -> Verdict:
    """Return the verdict on rows of these kinds.

    lines  row -> its finding in words
    weak   see `outcome`

    The verdict's `lines` are grouped by kind: a heading (`shown in 3 of 4`), then the findings of its rows. Its
    `deciding` is the heading of the kind that decided. If this kind has a single row, the row's finding is appended.
    """
    status, decisive, p = outcome(kinds, tests, weak)
    groups = {
        kind: [f"{kind} in {len(rows)} of {len(kinds)}", *(lines[row] for row in rows)]
        for kind in (*tests, OPEN, SHORT)
        if (rows := [row for row in kinds if kinds[row] == kind])
    }
    by = groups.get(decisive, [""])
    return remarked(
        Verdict(status, p=p, deciding=": ".join(by) if len(by) == 2 else by[0]),
        [line for group in groups.values() for line in group],
    )


def remarked(verdict: Verdict, remarks: Sequence[str]) -> Verdict:
    """Return the verdict with further reasons in `lines` and `detail`; empty ones are left out."""
    lines = (*verdict.lines, *filter(None, remarks))
    return replace(verdict, lines=lines, detail="; ".join(lines))


def shown(p_values: Mapping[str, float], level: float = LEVEL) -> set[str]:
    """Return the rows whose null hypothesis Holm's procedure over these rows rejects at `level`."""
    adjusted = holm(list(p_values.values()))
    return {row for row, p in zip(p_values, adjusted, strict=True) if p is not None and p <= level}
