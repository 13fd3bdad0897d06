"""The verdict on a claim about several rows from a p-value for and one against it in each, whatever test gives them.

Each is one-sided at 2.5 %, divided by the number of looks that the claim foresees. The claim is

- reproduced: every row is shown by its own test (then the claim cannot hold falsely in more than 2.5 %);
- not reproduced: the opposite is shown in some row, by Holm's procedure over the rows;
- partial: some rows are shown, by Holm's procedure;
- undecided: none of these;
- not enough data: some row has a run missing, or too few units.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from plat_analysis.claims.rows import LEVEL, Decision, all_of, any_of, deciding, shown
from plat_analysis.statistics.intervals import Estimate

SHOWN, OPPOSITE, OPEN, SHORT = "shown", "the opposite is shown", "not shown either way", "without enough data"


@dataclass(frozen=True)
class RowTests:
    """A row: the p-values of "the claim does not hold" and of "the opposite does not hold", and what was found.

    p, opposite  None where there are too few units, or a run is missing
    line         the finding in words, with its interval: `grpo: −0.84 [−0.95, −0.73] over 10 blocks`
    estimate     its number
    """

    p: float | None
    opposite: float | None
    line: str
    estimate: Estimate = field(default_factory=Estimate)


def decide(rows: Mapping[str, RowTests], looks: int = 1) -> Decision:
    """The verdict on all rows together, at one of so many looks at the claim."""
    level = LEVEL / looks
    holds = {row: tested.p for row, tested in rows.items() if tested.p is not None}
    against = {row: tested.opposite for row, tested in rows.items() if tested.p is not None}
    every = len(holds) == len(rows) and all(p <= level for p in holds.values())
    kinds = dict.fromkeys(rows, SHORT) | dict.fromkeys(holds, OPEN)
    kinds |= dict.fromkeys(shown(against, level), OPPOSITE)
    kinds |= dict.fromkeys(holds if every else shown(holds, level), SHOWN)
    found = list(kinds.values())
    p = None
    if not rows or SHORT in found:
        status, decided = "not_enough_data", SHORT
    elif every:
        status, decided, p = "reproduced", SHOWN, all_of(holds)
    elif OPPOSITE in found:
        status, decided, p = "not_reproduced", OPPOSITE, any_of(against)
    elif SHOWN in found:
        status, decided, p = "partial", SHOWN, any_of(holds)
    else:
        status, decided = "undecided", OPEN
    groups = {
        kind: [f"{kind} in {len(members)} of {len(kinds)}", *(rows[row].line for row in members)]
        for kind in (SHOWN, OPPOSITE, OPEN, SHORT)
        if (members := [row for row in kinds if kinds[row] == kind])
    }
    lines = tuple(line for group in groups.values() for line in group)
    return Decision(status, lines, p, deciding(groups.get(decided, ())))
