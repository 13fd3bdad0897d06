"""Where a report comes from: what its page says of command, overrides, scale, date and versions.

Rebuilding a report must give the same bytes, also from a copy of the store on another machine. So the date is the end
of the newest run, not the time of drawing, and the command holds no absolute path.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from plat_analysis.data.runs import RunView
from plat_analysis.text import printable

if TYPE_CHECKING:
    from plat.spec.experiment import Experiment


@dataclass(frozen=True)
class Provenance:
    """What the command line knows of a report and the store does not.

    command    what makes this report again, e.g. `plat report experiments/table4.yaml scale=smoke`; default: `plat
               report`, the file's name and the overrides. It must hold no absolute path.
    notes      what a reader has to know of the runs, one sentence each
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
    """(name, text) pairs for the page, in order; facts that are not known are left out."""
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
