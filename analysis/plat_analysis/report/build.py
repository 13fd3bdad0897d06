"""Build the report of an experiment: every artifact of its file, then the verdicts on its claims.

report = build_report(frames, experiment)     # reads frames only; writes nothing
print_report(report, console)
files = write_report(report, folder)          # file name -> path; equal frames give equal bytes
report.failures                               # parts that failed, and where the file asks for them
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from plat.errors import SpecError
from plat.spec.expansion.experiment import Experiment, claimed
from plat.store.mlflow.frames import Frames
from plat.units import counted
from plat.user_code import definition_of
from plat.words.metric_names import SUCCESS, VAL_SUCCESS, own_metric
from plat_analysis.artifact import Figure, Table
from plat_analysis.builder_options import added_axes, by_axes, varied_axes
from plat_analysis.claims.engine import run_checks
from plat_analysis.claims.planned import asked_for
from plat_analysis.claims.reference import reference_beside
from plat_analysis.data.results import Results
from plat_analysis.facets import Facets, Layout
from plat_analysis.plugins import builders
from plat_analysis.plugins.builders import Failure
from plat_analysis.plugins.command_line import Part, narrowing, parts
from plat_analysis.plugins.entry_checking import check_entries, place, why_left_out
from plat_analysis.quantities.metric import end_decimals
from plat_analysis.report.recorded_report import metric_name
from plat_analysis.report.report import Provenance, Report

# Lay out a report by axes: those of a file without `report:`, and those that the command line added.

MOST_CURVES = 6  # of metrics that no claim is about
MOST_PANELS = 100  # of curves that the file does not ask for; many more take matplotlib minutes
MOST_PRINTED = 2  # on the terminal, of runs without claims and headline metric
# Learning rates, times, counters, speed: what loggers add by themselves.
HOUSEKEEPING = re.compile(
    r"(^|[/_.-])(lr|learning_rate|epoch|step|steps|iteration|iterations|sps|fps|time|seconds|elapsed|wall_time|runtime|"
    r"throughput|samples_per_second|steps_per_second|total_timesteps|time_elapsed|memory|mem)($|[/_.-])",
    re.IGNORECASE,
)


def entries_of(results: Results) -> list[dict[str, Any]]:
    """Return the report entries of an experiment: those of its file after the effects of the axes that were added.

    Without `report:`, these are the effect of an only axis, or for several a grid of each metric, then curves and
    effects; then a table of all other metrics. An axis whose values have different seeds has no effect, because effects
    are paired. The key `only` of an entry says where it is shown: on the `page`, or `folded` there; else everywhere.
    """
    experiment = results.experiment
    metrics, others = _metrics(results)
    if experiment.report:  # what was added is compared first
        return [*_effects(results, added_axes(experiment), metrics), *experiment.report]
    if not metrics:
        return []
    varied = varied_axes(experiment)
    effects = _effects(results, varied, metrics)
    cells = {"rows": varied[:-1] or varied, "columns": varied[-1:] if len(varied) > 1 else ()}
    if len(varied) != 1 or not effects:
        groups = [[metric] for metric in metrics] if varied else [metrics]
        effects = [
            *(_table(results, group, **cells) for group in groups),
            *({**one, "only": "page"} for one in effects),
        ]
    curves = {"builder": "learning_curves", **_laid_out(experiment)}
    entries = [*effects, {**curves, "metrics": metrics}]
    if others:
        entries.append({**_table(results, others, rows=varied, columns=()), "title": "Other metrics", "only": "folded"})
        entries.append({**curves, "metrics": others[:MOST_CURVES], "only": "folded"})
    has_room = _panels(experiment) <= MOST_PANELS
    return [entry for entry in entries if has_room or entry["builder"] != "learning_curves"]


def _laid_out(experiment: Experiment) -> dict[str, Any]:
    """Return the arguments that lay out the curves of a file without `report:`."""
    return by_axes(experiment, ("rows", "columns", "pair", "baseline"), {})


def _panels(experiment: Experiment) -> int:
    """Return how many panels curves laid out by `_laid_out` have."""
    given = _laid_out(experiment)
    names = [given.get("rows", ()), given.get("columns", ())]
    axes = [axis for name in names for axis in ([name] if isinstance(name, str) else name)]
    return math.prod(len(experiment.axes[axis]) for axis in axes)


def _table(results: Results, metrics: Sequence[str], **cells: Any) -> dict[str, Any]:
    """Return the table of the means of metrics in these rows and columns; the success of runs is in percent."""
    rate = metrics == [SUCCESS] and results.success_is_share
    title = " by ".join(filter(None, [_name(results, metrics[0]), ", ".join(varied_axes(results.experiment))]))
    digits = 1 if rate else {metric: end_decimals(results, metric) for metric in metrics}
    return {"builder": "metric_table", "metrics": metrics, "title": title, "percent": rate, "digits": digits, **cells}


def _metrics(results: Results) -> tuple[list[str], list[str]]:
    """Return the metrics that a report is about, and the others that runs log, which say how a script ran last.

    The former are the rate and the metric of a script and those of claims; without any, the first MOST_PRINTED. Runs
    of plat's own trainers have no others.
    """
    logged = results.logged()
    headline = [SUCCESS] if any(len(results.curve(run.id, SUCCESS)[0]) for run in results.runs) else []
    own = [own_metric(run.run.config)[0] for run in results.runs]
    named = [metric for metric in (*own, *claimed(results.experiment.claims)) if metric in logged]
    first = [*headline, *dict.fromkeys(metric for metric in named if metric not in results.headlines)]
    others = sorted((name for name in logged if name not in (*first, *results.headlines)), key=_is_housekeeping)
    if headline and VAL_SUCCESS in results.headlines:
        return first, []
    return (first, others) if first else (others[:MOST_PRINTED], others[MOST_PRINTED:])


def _is_housekeeping(metric: str) -> bool:
    """Return True for a metric that says how a script ran, not how well it did."""
    return HOUSEKEEPING.search(metric) is not None


def _name(results: Results, metric: str) -> str:
    """Return a metric as its runs call it: `accuracy` for the success of a script that logs it by this name."""
    name = results.metric(metric)
    return metric if name == VAL_SUCCESS else name


def _effects(results: Results, axes: Sequence[str], metrics: Sequence[str]) -> list[dict[str, Any]]:
    """Return a table for each of the axes: the level at each of its values, and the change from the first one."""
    varied = varied_axes(results.experiment)
    measures = {
        _name(results, one): "final"
        if one == SUCCESS and results.success_is_share
        else {"metric": one, "percent": False, "digits": end_decimals(results, one)}
        for one in metrics
    }
    on = ", ".join(measures) if len(measures) <= MOST_PRINTED else f"{len(measures)} metrics"
    return [
        {
            "builder": "measures_table",
            "conditions": axis,
            "rows": [other for other in varied if other != axis] or None,
            "measures": measures,
            "title": f"The effect of {axis} on {on}",
            "name": f"effect_of_{axis}",
        }
        for axis in axes
        if _is_paired(results, axis, [other for other in varied if other != axis])
    ]


def _is_paired(results: Results, axis: str, others: list[str]) -> bool:
    """Return True if the first value of an axis and each other one have the same seeds, wherever both have runs."""
    try:
        facets = Facets(results, Layout.of(rows=others, conditions=axis))
        for condition in facets.conditions[1:]:
            facets.check_pairs(facets.conditions[0], condition)
    except SpecError:
        return False
    return True


def build_report(frames: Frames, experiment: Experiment, provenance: Provenance | None = None) -> Report:
    """Return every artifact and verdict of an experiment file; without `report:`, the artifacts of `default_entries`.

    An entry that overrides leave without its runs is a note of the provenance, or a claim without enough data.

    Raises SpecError if an entry of the file cannot work for its matrix, or the committed verdicts cannot be read, and
    PluginError if a builder or check cannot be loaded. An entry that fails while it is built is added to `failures`,
    and the others are made. Artifacts get distinct names that are safe for files.
    """
    check_entries(experiment)
    shared = Results.of(frames, experiment)  # kept alive: builders and checks share it
    claims, claim_failures = run_checks(frames, experiment)
    experiment = asked_for(experiment, claims)
    results = shared if experiment is shared.experiment else Results.of(frames, experiment)
    artifacts: list[Table | Figure] = []
    failures: list[Failure] = []
    origins: list[str] = []
    notes: list[str] = []
    entries = entries_of(results)
    if note := _unequal_ends(results):
        notes.append(note)
    if not experiment.report and (count := _panels(experiment)) > MOST_PANELS:
        notes.append(
            f"Curves are not drawn: they would have {count:,} panels. `report:` can ask for those of some axes."
        )
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


def _unequal_ends(results: Results) -> str:
    """Return a sentence if scripts or imported runs log a metric that is judged to different last steps, else ""."""
    runs = [run for run in results.runs if run.run.trainer in ("script", "recorded") and not run.missing]
    for metric in _metrics(results)[0] if runs else ():
        curves = (results.curve(run.id, metric)[0] for run in runs)
        last = sorted(int(steps[-1]) for steps in curves if len(steps))
        if last and last[0] < last[-1]:
            how = "a measure at the end compares them as they are"
            return f"Runs log {_name(results, metric)} to different last steps, from {last[0]} to {last[-1]}: {how}."
    return ""


def _build(frames: Frames, part: Part, entry: dict[str, Any], where: str) -> list[Table | Figure]:
    builder = builders.find("plat.reports", str(entry["builder"]), where)
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
        if isinstance(artifact, Table):
            _check_width(artifact, f"{definition_of(builder)} (asked for at {where})")
        artifact.folded = entry.get("only") == "folded"
        if isinstance(artifact, Table):
            artifact.printed &= "only" not in entry
    if part.words:
        for artifact in artifacts:
            artifact.name += part.ending
            artifact.title = f"{artifact.title} ({part.words})"
    return artifacts


def _check_width(table: Table, where: str) -> None:
    """Raise SpecError unless every row has a cell for each column."""
    for number, row in enumerate(table.rows, 1):
        if len(row.cells) != len(table.columns):
            cells = f"{counted(len(row.cells), 'cell')} for {counted(len(table.columns), 'column')}"
            what = f"row {number} of the table {table.name!r} has {cells}"
            raise SpecError(what, where=where, fix="give every row a cell for each column")


def _name_apart(artifacts: list[Table | Figure]) -> None:
    """Give artifacts plain and distinct file names."""
    taken: set[str] = {"runs", "claims", "report", "cells", "forest"}
    for artifact in artifacts:
        stem = re.sub(r"[^A-Za-z0-9_.-]+", "-", artifact.name).strip("-.")[:100] or "artifact"
        name = next(n for i in range(len(artifacts) + 1) if (n := stem if i == 0 else f"{stem}-{i + 1}") not in taken)
        artifact.name = name
        taken.add(name)
