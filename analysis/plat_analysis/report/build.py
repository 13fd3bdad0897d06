"""Build the report of an experiment: every artifact of its file, then the verdicts on its claims.

report = build_report(frames, experiment)     # reads frames only; writes nothing
print_report(report, console)
files = write_report(report, folder)          # file name -> path; equal frames give equal bytes
report.failures                               # parts that failed, and where the file asks for them
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

from plat.errors import SpecError
from plat.spec.expansion.experiment import Experiment
from plat.store.mlflow.frames import Frames
from plat_analysis.added_axes import Part, parts
from plat_analysis.artifact import Figure, Table
from plat_analysis.claims.engine import run_checks
from plat_analysis.claims.reference import reference_beside
from plat_analysis.data.results import Results
from plat_analysis.plugins import builder_registry
from plat_analysis.plugins.entry_checking import check_entries, place, why_left_out
from plat_analysis.plugins.failure import Failure
from plat_analysis.plugins.narrowed import narrowing
from plat_analysis.report.default_entries import entries_of
from plat_analysis.report.estimates import metric_name
from plat_analysis.report.report import Provenance, Report


def build_report(frames: Frames, experiment: Experiment, provenance: Provenance | None = None) -> Report:
    """Return every artifact and verdict of an experiment file; without `report:`, the artifacts of `default_entries`.

    An entry that overrides leave without its runs is a note of the provenance, or a claim without enough data.

    Raises SpecError if an entry of the file cannot work for its matrix, or the committed verdicts cannot be read, and
    PluginError if a builder or check cannot be loaded. An entry that fails while it is built is added to `failures`,
    and the others are made. Artifacts get distinct names that are safe for files.
    """
    check_entries(experiment)
    results = Results.of(frames, experiment)  # kept alive: builders and checks share it
    artifacts: list[Table | Figure] = []
    failures: list[Failure] = []
    origins: list[str] = []
    notes: list[str] = []
    entries = entries_of(results)
    for index, entry in enumerate(entries):
        at = index - (len(entries) - len(experiment.report))  # entries that the file does not have come first
        where = place(experiment, "report", at) if at >= 0 else str(experiment.path)
        for part in parts(experiment, entry):
            if at >= 0 and narrowing(experiment) and (why := why_left_out(part.experiment, "report", at)):
                notes.append(f"The report entry {entry.get('builder')!r}{part.ending} is {why}.")
                continue
            try:
                built = _build(frames, part, entry, where)
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
        replace(provenance, notes=(*provenance.notes, *notes)) if provenance else None,
        [*failures, *claim_failures],
        {artifact.name: where for artifact, where in zip(artifacts, origins, strict=True)},
        reference=reference_beside(experiment, claims),
    )


def _build(frames: Frames, part: Part, entry: dict[str, Any], where: str) -> list[Table | Figure]:
    builder = builder_registry.find("plat.reports", str(entry["builder"]), where)
    arguments = {key: value for key, value in entry.items() if key not in ("builder", "only")}
    built = builder(frames, part.experiment, **arguments)
    artifacts = list(built) if isinstance(built, list | tuple) else [built]
    if not all(isinstance(artifact, Table | Figure) for artifact in artifacts):
        raise SpecError(
            f"the builder {entry['builder']!r} returned something other than tables and figures",
            where=where,
            fix="return a list of plat_analysis.artifact.Table and Figure",
        )
    for artifact in artifacts:
        artifact.folded = entry.get("only") == "folded"
        if isinstance(artifact, Table):
            artifact.printed &= "only" not in entry
    if part.words:
        for artifact in artifacts:
            artifact.name += part.ending
            artifact.title = f"{artifact.title} ({part.words})"
    return artifacts


def _name_apart(artifacts: list[Table | Figure]) -> None:
    """Give artifacts plain and distinct file names."""
    taken: set[str] = {"runs", "claims", "report", "cells", "forest"}
    for artifact in artifacts:
        stem = re.sub(r"[^A-Za-z0-9_.-]+", "-", artifact.name).strip("-.")[:100] or "artifact"
        name = next(n for i in range(len(artifacts) + 1) if (n := stem if i == 0 else f"{stem}-{i + 1}") not in taken)
        artifact.name = name
        taken.add(name)
