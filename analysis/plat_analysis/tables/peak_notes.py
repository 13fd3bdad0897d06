"""The cells of Table 4 (a success rate, a change, an interval, the number of seeds), and the notes under them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from plat.words.outcomes import failure_class, is_stopped
from plat_analysis.artifact import Cell, Note, Tone, estimate_cell, interval, provenance, short_interval
from plat_analysis.data.labels import is_stand_in
from plat_analysis.data.results import RunView
from plat_analysis.quantities.quantity import Fall, fall_after_peak
from plat_analysis.statistics.intervals import MIN_JUDGED, Estimate
from plat_analysis.statistics.replicates import MIN_UNITS
from plat_analysis.statistics.significance import OWN_SPREAD

if TYPE_CHECKING:
    from plat.spec.expansion.experiment import Experiment
    from plat_analysis.contrasts.comparison import Compared
    from plat_analysis.data.published import Discrepancy

SHORT_REASONS = {"unfinished": "partial", "incomplete": "partial"}


def value_cell(estimate: Estimate, tone: Tone = "", fallen: Sequence[Fall] = (), signed: bool = False) -> Cell:
    """Return a success rate in percent; a dash where it is missing, an arrow where a run fell after its peak."""
    cell = estimate_cell(estimate, 1, signed, tone)
    if estimate.value is None or not fallen:
        return cell
    return replace(cell, text="↓" + cell.text, tone="missing", title="; ".join([*map(str, fallen), cell.title]))


def change_cell(estimate: Estimate, fallen: Sequence[Fall] = ()) -> Cell:
    """Return a change in points as `value_cell` does, toned good or bad where it is starred."""
    return value_cell(estimate, "", fallen, signed=True)


def bounds_cell(estimate: Estimate, signed: bool = False) -> Cell:
    """Return the 95 % interval, empty if there is none; without a value, the reason in one or two words."""
    if estimate.value is None:
        brief = _brief(estimate.note)
        return Cell(
            brief,
            (brief, SHORT_REASONS.get(brief, failure_class(brief) or brief)),
            "missing",
            title=provenance(estimate),
        )
    shorter = (short_interval(estimate, signed, 1), short_interval(estimate, signed, 0))
    return Cell(interval(estimate, 1, signed), shorter, "dim", title=provenance(estimate))


def _brief(note: str) -> str:
    """Return the reason in one or two words, such as `failed:oom` or `not run`."""
    if " columns; " in note:
        return note.split(" columns;")[0]
    reasons = list(dict.fromkeys(part.split(": ", 1)[-1].strip() for part in note.replace(",", ";").split(";")))
    reasons = [reason for reason in reasons if reason]
    return reasons[0] if len(reasons) == 1 else "incomplete"


def seeds_cell(estimate: Estimate) -> Cell:
    """Return how many of the wanted seeds an estimate has: `4/5`."""
    tone: Tone = "dim" if estimate.complete else "missing"
    return Cell(f"{estimate.seeds}/{estimate.wanted}", tone=tone, title=provenance(estimate))


# Notes under a table of paired changes: how its intervals and stars were made, and which runs are missing.


def star_rule(changes: Iterable[Estimate]) -> str:
    """Return what a star means in a table with these changes; the same words for each table that has stars."""
    if not any(estimate.judged for estimate in changes):
        return f"No change has a star: a star requires at least {MIN_JUDGED} seeds."
    return (
        "A star marks a change that differs from zero in two tests over runs, Student's t and sign flips. The error "
        "rate over all changes of the table is controlled at 5 % (Holm). The spread of a cell is taken to be at least "
        f"that of its column below {OWN_SPREAD} runs, and for a rate at least that of rounding it to one instance. "
        "The printed intervals are 95 % intervals of single cells, without these corrections."
    )


def peak_notes(
    grid: Compared, experiment: Experiment, contradictions: Sequence[Discrepancy], marks: dict[int, str]
) -> list[Note]:
    """Return the footnotes of the main table; `marks` maps Python's `id()` of a contradiction to its letter."""
    runs = list({run.id: run for row in grid.rows for run in grid.runs(row)}.values())
    return [
        *(Note(d.text, marks.get(id(d), "")) for d in contradictions if d.cell),
        *map(Note, _intervals(grid)),
        *map(Note, _fallen(grid, runs)),
        *map(Note, _models(experiment, runs)),
        *map(Note, _outcomes(runs)),
        *(Note(d.text) for d in contradictions if not d.cell),
    ]


def _intervals(grid: Compared) -> list[str]:
    cells = [cell for row in grid.rows for cell in grid.row(row)]
    levels, changes = ([cell.estimate(grid.contrasts[name]) for cell in cells] for name in ("peak", "delta"))
    shown = [*levels, *changes]
    kinds = {estimate.over for estimate in shown} - {""}
    notes = []
    if "instances" in kinds:
        notes.append(
            "Intervals with one seed are over the evaluation instances (Wilson; Newcombe's paired method for "
            "changes). They do not include the spread between training runs, so no verdict uses them."
        )
    strata = {estimate.about for estimate in shown if estimate.over == "seeds"}
    if "this build" in strata:
        notes.append(
            "Intervals over seeds are Student's t, and changes are paired by seed. Instances and base models are "
            "fixed, so the intervals do not cover other builds of a base model."
        )
    if "" in strata:
        notes.append("Intervals over seeds are Student's t, and changes are paired by seed.")
    notes += [
        f"Intervals and stars are about {builds} of each base model (builds: fixed): Student's t over seeds, with the "
        "spread pooled within builds. Changes are paired by build and seed. The intervals do not cover other builds."
        for builds in sorted(strata - {"this build", ""})
    ]
    if "builds" in kinds:
        notes.append(
            "Intervals and stars are about such builds of each base model (builds: random): Student's t on the mean of "
            "each build. Changes are paired by build and seed. If builds share seeds, the variance over seeds is "
            "added; this is conservative."
        )
    if any(change.value is not None and not change.over for change in changes):
        notes.append(
            f"A value has no interval if there are fewer than {MIN_UNITS} seeds, or fewer than {MIN_UNITS} builds if "
            "intervals are over builds (`builds: fixed` gives intervals about these builds only)."
        )
    return notes


def _fallen(grid: Compared, runs: Sequence[RunView]) -> list[str]:
    falls = {run.run.name: fall for run in runs if not run.missing and (fall := fall_after_peak(grid.results, run))}
    if not falls:
        return []
    named = listed(
        [f"{name} ({100 * fall.peak:.1f} → {100 * fall.final:.1f}, {fall.measured})" for name, fall in falls.items()]
    )
    return [f"↓ fell after the peak, {len(falls)} of {len(runs)} runs, by 5 points or more and beyond chance: {named}."]


def _models(experiment: Experiment, runs: Sequence[RunView]) -> list[str]:
    if not any(is_stand_in(run) for run in runs):
        return []
    advice = " in the place of the paper's models; compare signs and orders, not levels" if experiment.paper else ""
    return [
        f"Scale {experiment.scale}: small stand-ins trained from scratch (parameter counts in the table) ran{advice}."
    ]


def _outcomes(runs: Sequence[RunView]) -> list[str]:
    stopped = sorted({f"{run.run.name} ({run.outcome})" for run in runs if is_stopped(run.outcome)})
    absent = [f"{run.run.name} ({run.missing})" for run in runs if run.missing]
    notes = [f"Stopped early, counted as results: {listed(stopped)}."] if stopped else []
    return notes + ([f"Missing, {len(absent)} of {len(runs)} runs: {listed(absent)}."] if absent else [])


def listed(names: Sequence[str], most: int = 12) -> str:
    """Return the first `most` names, and the number of the others: `a, b and 3 more`."""
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")
