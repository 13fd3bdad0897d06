"""The runs of one condition in a row and column, and what is measured of them."""

from __future__ import annotations

from collections.abc import Mapping

from plat_analysis.data.runs import Results, replicate_order
from plat_analysis.facets import Runs
from plat_analysis.quantities.quantity import Absent, Measurement, Quantity
from plat_analysis.statistics.replicates import Replicate


class Side:
    """`side.measured(quantity)` are the values of the runs that have one; `runs` are all that the matrix has."""

    def __init__(self, results: Results, runs: Runs) -> None:
        self.results = results
        self.runs: Runs = {replicate: runs[replicate] for replicate in sorted(runs, key=replicate_order)}
        self._all: dict[Quantity, dict[Replicate, Measurement | Absent]] = {}

    def measured(self, quantity: Quantity) -> Mapping[Replicate, Measurement]:
        """Replicate -> value, of the runs that have one."""
        return {r: value for r, value in self._measure(quantity).items() if isinstance(value, Measurement)}

    def absent(self, quantity: Quantity) -> Mapping[Replicate, str]:
        """Replicate -> why its run has no value."""
        return {r: value.why for r, value in self._measure(quantity).items() if isinstance(value, Absent)}

    def reason(self, quantity: Quantity) -> str:
        """Why values are missing, such as `not run` or `seed 3: failed:oom`; "" when none is missing."""
        if not self.runs:
            return "not in the matrix"
        absent = self.absent(quantity)
        if len(absent) == len(self.runs) and len(set(absent.values())) == 1:
            return next(iter(absent.values()))
        many_builds = len({replicate.build for replicate in self.runs}) > 1
        names = {replicate: str(replicate if many_builds else Replicate(None, replicate.seed)) for replicate in absent}
        return ", ".join(f"{names[replicate]}: {why}" for replicate, why in absent.items())

    def _measure(self, quantity: Quantity) -> dict[Replicate, Measurement | Absent]:
        if quantity not in self._all:
            self._all[quantity] = {r: quantity.measure(self.results, run) for r, run in self.runs.items()}
        return self._all[quantity]
