"""What the JSON of a verdict has of its rows, of its error and of the scale of its runs."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from plat.spec.expansion.experiment import Experiment
from plat.units import counted
from plat_analysis.data.labels import stands_in
from plat_analysis.statistics.intervals import LEVEL, Estimate
from plat_analysis.statistics.significance import holm

Method = Literal["one test", "every row", "holm", "looks"]


@dataclass(frozen=True)
class RowRecord:
    """Hold the numbers of a row on which a verdict rests.

    Attributes:
        row: its name; "" for the only row of a claim that names none.
        finding: what is shown in it, such as `above zero`, or `open`, or `without enough data`.
        tests: finding -> one-sided p-value of the row's own test, the claimed finding first; {} without enough data.
        corrected: the same after Holm's procedure over the rows with enough data.
        estimate: the number with its interval.
        unit: `points` for a change of a share, `percent` for a share; "" for a metric in its own unit.
        level: of the interval.
    """

    row: str
    finding: str = ""
    tests: Mapping[str, float] = field(default_factory=dict)
    corrected: Mapping[str, float] = field(default_factory=dict)
    estimate: Estimate = field(default_factory=Estimate)
    unit: str = ""
    level: float = LEVEL

    @property
    def has_interval(self) -> bool:
        """Return True if it has an interval over independent units; one over the instances of a run decides nothing."""
        return self.estimate.over != "instances" and None not in (self.estimate.low, self.estimate.high)

    def as_dict(self) -> dict[str, Any]:
        """Return the row as `plat claims --json` prints it (`RowOfVerdict` in `plat.cli.schemas.results`)."""
        one, kind = self.estimate, self.finding if self.finding in self.tests else next(iter(self.tests), "")
        has_interval = self.has_interval
        return {
            "row": self.row,
            "finding": self.finding,
            "estimate": _finite(one.value),
            "low": _finite(one.low) if has_interval else None,
            "high": _finite(one.high) if has_interval else None,
            "level": round(self.level, 12) if has_interval else None,
            "over": one.over if has_interval else "",
            "about": one.about,
            "unit": self.unit,
            "values": one.seeds,
            "wanted": one.wanted,
            "units": one.units,
            "p": self.tests.get(kind),
            "p_corrected": self.corrected.get(kind),
            "tests": dict(self.tests),
            "note": one.note,
            "run_ids": list(one.run_ids),
        }


def _finite(number: float | None) -> float | None:
    return None if number is None or not math.isfinite(number) else float(number)


@dataclass(frozen=True)
class ErrorControl:
    """Hold how the error of a verdict is held.

    Attributes:
        method: `one test`; `every row`: each row is shown by its own test; `holm`: Holm's procedure over the rows;
            `looks`: group-sequential tests with Holm's procedure over the rows (`statistics.sequential`).
        level: one-sided error of a wrong verdict, over all rows and looks.
        rows: number of rows of the claim.
        looks: number of planned looks among which the error is divided.
    """

    method: Method
    level: float
    rows: int
    looks: int = 1

    @property
    def in_words(self) -> str:
        """Return one sentence without its full stop: `one-sided at 2.5 %, Holm's procedure over 9 rows`."""
        size = f"one-sided at {100 * self.level:g} %"
        how = {
            "one test": "one test",
            "every row": f"each of {self.rows} rows is shown by its own test",
            "holm": f"Holm's procedure over {self.rows} rows",
            "looks": f"over all of {counted(self.looks, 'planned look')} and {counted(self.rows, 'row')}",
        }[self.method]
        divided = f", divided among {self.looks} planned looks" if self.looks > 1 and self.method != "looks" else ""
        return f"{size}, {how}{divided}"

    def as_dict(self) -> dict[str, Any]:
        """Return it as `plat claims --json` prints it (`ErrorControl` in `plat.cli.schemas.results`)."""
        facts = {"method": self.method, "level": round(self.level, 12), "rows": self.rows, "looks": self.looks}
        return {**facts, "in_words": self.in_words}


def tested_rows(kinds: Mapping[str, str], tests: Mapping[str, Mapping[str, float]]) -> tuple[RowRecord, ...]:
    """Return the rows of a claim with their findings and p-values, without numbers.

    Args:
        kinds: row -> its finding.
        tests: finding, the claimed one first -> row -> p-value, of the rows with enough data.
    """
    corrected = {kind: dict(zip(p, holm(list(p.values())), strict=True)) for kind, p in tests.items()}
    return tuple(
        RowRecord(
            row,
            finding,
            {kind: p[row] for kind, p in tests.items() if row in p},
            {kind: found for kind, p in corrected.items() if (found := p.get(row)) is not None},
        )
        for row, finding in kinds.items()
    )


def scale_in_words(experiment: Experiment, run_ids: Collection[str]) -> str:
    """Return what the runs of a verdict are: `evidence` of the file or its paper, or their scale and number of seeds.

    For example `real scale, one seed`, or `stand-ins, scale smoke, 5 seeds`; without any of these, `20 runs`.
    """
    if experiment.evidence_in_words:
        return experiment.evidence_in_words
    wanted = set(run_ids)
    runs = [run for run in experiment.runs if run.id in wanted]
    scales = dict.fromkeys(str(scale) for run in runs if (scale := run.config.get("scale")))
    seeds = {str(seed) for run in runs if (seed := run.axes.get("seed", run.config.get("seed"))) is not None}
    number = counted(len(seeds), "seed") if seeds else counted(len(runs), "run")
    words = ["stand-ins"] if any(stands_in(run.config) for run in runs) else []
    return ", ".join([*words, *([f"scale {'+'.join(scales)}"] if scales else []), number])


def numbered_rows(
    rows: Sequence[RowRecord], estimates: Mapping[str, Estimate], units: Mapping[str, str]
) -> tuple[RowRecord, ...]:
    """Return rows with their numbers and units; a row without tests is added, one without a number stays."""
    known = {row.row: row for row in rows}
    return tuple(
        RowRecord(
            name,
            before.finding,
            before.tests,
            before.corrected,
            estimates.get(name, before.estimate),
            units.get(name, before.unit).strip(),
            before.level,
        )
        for name in dict.fromkeys([*known, *estimates])
        for before in (known.get(name, RowRecord(name)),)
    )
