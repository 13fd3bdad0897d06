"""Builds the report of an experiment: every artifact it asks for, then the verdicts on its claims.

report = build_report(frames, experiment)     # reads frames only; writes nothing
print_report(report, console)
files = write_report(report, folder)          # file name -> path; equal frames give equal bytes
report.failures                               # what could not be made, and where the file asks for it
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from plat.errors import SpecError
from plat_analysis.artifact import Figure, Table
from plat_analysis.claims.engine import run_checks
from plat_analysis.claims.reference import reference_beside
from plat_analysis.data.runs import Results
from plat_analysis.plugins import registry
from plat_analysis.plugins.checking import check_entries, place
from plat_analysis.plugins.failure import Failure
from plat_analysis.report.provenance import Provenance
from plat_analysis.report.recorded import metric_name
from plat_analysis.report.report import Report

if TYPE_CHECKING:
    from plat.spec.experiment import Experiment
    from plat.store.mlflow.frames import Frames


def build_report(frames: Frames, experiment: Experiment, provenance: Provenance | None = None) -> Report:
    """Every artifact and claim of an experiment file.

    SpecError when an entry of the file cannot work for its matrix. An entry that fails all the same while it is built
    ends up in `failures`, and the others are made.
    """
    check_entries(experiment)
    results = Results.of(frames, experiment)  # held until the end: builders and checks share it
    artifacts: list[Table | Figure] = []
    failures: list[Failure] = []
    origins: list[str] = []
    for index, entry in enumerate(experiment.report):
        where = place(experiment, "report", index)
        try:
            built = _build(frames, experiment, entry, where)
        except Exception as error:
            failures.append(Failure.of(f"the report entry {entry.get('builder')!r}", error, where))
            continue
        artifacts += built
        origins += [where] * len(built)
    _name_apart(artifacts)
    claims, claim_failures = run_checks(frames, experiment)
    values: dict[str, float] = {}
    for artifact in artifacts:
        values |= {metric_name(name): float(value) for name, value in artifact.values.items()}
    return Report(
        experiment,
        results,
        artifacts,
        claims,
        values,
        provenance,
        [*failures, *claim_failures],
        {artifact.name: where for artifact, where in zip(artifacts, origins, strict=True)},
        reference=reference_beside(experiment, claims),
    )


def _build(frames: Frames, experiment: Experiment, entry: dict[str, Any], where: str) -> list[Table | Figure]:
    builder = registry.find("plat.reports", str(entry["builder"]), where)
    arguments = {key: value for key, value in entry.items() if key != "builder"}
    built = registry.call(builder, frames, experiment, arguments, where)
    artifacts = list(built) if isinstance(built, list | tuple) else [built]
    if not all(isinstance(artifact, Table | Figure) for artifact in artifacts):
        raise SpecError(
            "it gave something else than tables and figures",
            where=where,
            mend="a builder returns a list of plat_analysis.artifact.Table and Figure",
        )
    return artifacts


def _name_apart(artifacts: list[Table | Figure]) -> None:
    """File names must be plain, and no two artifacts may share one."""
    taken: set[str] = {"runs", "claims", "report"}
    for artifact in artifacts:
        stem = re.sub(r"[^A-Za-z0-9_.-]+", "-", artifact.name).strip("-.")[:100] or "artifact"
        name = next(n for i in range(len(artifacts) + 1) if (n := stem if i == 0 else f"{stem}-{i + 1}") not in taken)
        artifact.name = name
        taken.add(name)
