"""What a report holds: its tables and figures, the verdicts on its claims, and what could not be made."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

from plat_analysis.artifact import Figure, Table
from plat_analysis.claims.engine import Verdict
from plat_analysis.claims.reference import Earlier
from plat_analysis.data.runs import Results
from plat_analysis.plugins.failure import Failure
from plat_analysis.report.provenance import Provenance
from plat_analysis.tables.runs_table import runs_table

if TYPE_CHECKING:
    from plat.spec.experiment import Experiment


@dataclass
class Report:
    """Tables and figures in the order of the experiment file, then the verdicts.

    `values` are the key numbers, with names that MLflow accepts. `failures` are the entries that could not be built and
    the figures that could not be drawn (the latter are known once its files were made); everything else is made.
    """

    experiment: Experiment
    results: Results
    artifacts: list[Table | Figure]
    claims: list[Verdict]
    values: dict[str, float]
    provenance: Provenance | None = None
    build_failures: list[Failure] = field(default_factory=list)
    places: dict[str, str] = field(default_factory=dict)  # artifact name -> where the file asks for it
    draw_failures: dict[str, Failure] = field(default_factory=dict)
    pictures: dict[str, dict[str, bytes]] = field(default_factory=dict)  # figure -> its pictures, once they are drawn
    reference: dict[str, Earlier] = field(default_factory=dict)  # claim id -> what the reference results say of it

    @cached_property
    def runs_table(self) -> Table:
        """Every run of the experiment, as a table."""
        return runs_table(self.results)

    def release(self) -> None:
        """Forget the measurements behind a report whose files are written: the page of several needs them no more."""
        _ = self.runs_table
        self.results.release()

    @property
    def failures(self) -> list[Failure]:
        return [*self.build_failures, *self.draw_failures.values()]

    @property
    def warnings(self) -> list[str]:
        """What a reader has to know of the runs behind it, one sentence each."""
        return [*self.results.warnings(), *(self.provenance.notes if self.provenance else ())]
