"""The report of an experiment as data, and the facts on where it comes from.

Rebuilding a report must give equal bytes on any machine. So its date is the end of the newest run, and its command has
no absolute path.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property

from plat.spec.expansion.experiment import Experiment
from plat_analysis.artifact import Figure, Table
from plat_analysis.claims.engine import Verdict
from plat_analysis.claims.reference import Earlier
from plat_analysis.data.results import Results, RunView
from plat_analysis.plugins.failure import Failure
from plat_analysis.shown_text import printable
from plat_analysis.tables.runs_table import runs_table


@dataclass(frozen=True)
class Provenance:
    """Hold the facts that the command line knows and the store does not.

    command    what makes this report again, e.g. `plat report experiments/table4.yaml scale=smoke`, without absolute
               paths; default: `plat report`, the file's name and the overrides
    notes      warnings on the runs, one sentence each
    overrides  the overrides of the command line, as typed
    versions   package -> version, of what drew the report, e.g. {"plat": "0.2.0"}
    """

    command: str = ""
    overrides: tuple[str, ...] = ()
    versions: Mapping[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


def provenance_facts(
    provenance: Provenance | None, experiment: Experiment, runs: Iterable[RunView]
) -> list[tuple[str, str]]:
    """Return (name, text) pairs for the page, in order, e.g. ("scale", "smoke"); unknown facts are left out."""
    runs = list(runs)
    known = provenance or Provenance()
    command = known.command or " ".join(["plat report", experiment.path.name, *known.overrides])
    trainers = sorted({version for run in runs if (version := run.tag("plat.trainer"))})
    ends = [end for run in runs if (end := run.tag("plat.ended"))]
    drawn_with = ", ".join(f"{package} {version}" for package, version in sorted(known.versions.items()))
    facts = [
        ("command", command),
        ("overrides", " ".join(known.overrides) if provenance else ""),
        ("scale", experiment.scale),
        ("newest run ended", max(ends, default="")),
        ("trained with", ", ".join(trainers)),
        ("drawn with", drawn_with),
    ]
    return [(name, printable(text)) for name, text in facts if text]


@dataclass
class Report:
    """Hold tables and figures in the order of the experiment file, then the verdicts.

    values    the key numbers, with names that MLflow accepts
    left_out  which metrics are in no table, in a sentence
    failures  entries that could not be built, and figures that could not be drawn (known once the files were made)
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
    pictures: dict[str, dict[str, bytes]] = field(default_factory=dict)  # figure -> kind -> file, once drawn
    reference: dict[str, Earlier] = field(default_factory=dict)  # claim id -> what the reference results found
    left_out: str = ""

    @cached_property
    def runs_table(self) -> Table:
        """Return every run of the experiment, as a table."""
        return runs_table(self.results)

    def release(self) -> None:
        """Free the measurements once the files are written; keep the table of runs, for a page of several reports."""
        _ = self.runs_table
        self.results.release()

    @property
    def failures(self) -> list[Failure]:
        return [*self.build_failures, *self.draw_failures.values()]

    @property
    def warnings(self) -> list[str]:
        """Return warnings on the runs, one sentence each."""
        return [*self.results.warnings(), *(self.provenance.notes if self.provenance else ())]
