"""List every wanted run with its outcome, the model that ran, its peak and its end."""

from __future__ import annotations

from plat.words.outcomes import FINISHED
from plat_analysis.artifact import DASH, Cell, Column, Note, Row, Table, Tone, number
from plat_analysis.data.labels import label, model_that_ran
from plat_analysis.data.results import Results, RunView, spell
from plat_analysis.quantities.quantity import Measurement
from plat_analysis.quantities.success import fall_after_peak, final_heldout_score, heldout_score, last_score, peak_score

HEADS = ("run", "outcome")
MOST_LISTED = 10


def runs_table(results: Results) -> Table:
    """Return a line for each run of the experiment file, in its order, with or without a result."""
    axes = list(results.experiment.axes) or sorted({axis for run in results.runs for axis in run.run.axes})
    heads = [Column(axis, numeric=False) for axis in axes]
    table = Table(
        name="runs",
        title="Runs",
        columns=[
            Column("run", numeric=False),
            *heads,
            Column("outcome", numeric=False),
            Column("model that ran", numeric=False),
            Column("peak", "validation %"),
            Column("at step", "validation %"),
            Column("last", "validation %"),
            Column("at step", "validation %"),
            Column("peak", "held-out %"),
            Column("final", "held-out %"),
            Column("fell after its peak", numeric=False),
        ],
        rows=[],
        printed=False,
    )
    for run in results.runs:
        _add(table, results, run, axes)
    return table


def unfinished_runs(results: Results) -> Table:
    """Return the first MOST_LISTED runs that did not finish, with their axes and outcomes, for the terminal."""
    axes = [axis for axis, values in results.experiment.axes.items() if len(values) > 1]
    runs = [run for run in results.runs if run.outcome != FINISHED]
    table = Table("unfinished", "Runs that did not finish", [Column(title, numeric=False) for title in HEADS], [])
    table.columns[1:1] = [Column(axis, numeric=False) for axis in axes]
    for run in runs[:MOST_LISTED]:
        words = [run.id, *(spell(run.run.axes.get(axis)) for axis in axes), run.outcome or run.missing]
        table.rows.append(Row(tuple(map(Cell, words))))
    if len(runs) > MOST_LISTED:
        table.notes.append(Note(f"and {len(runs) - MOST_LISTED} more: `plat status` lists them"))
    return table


def _add(table: Table, results: Results, run: RunView, axes: list[str]) -> None:
    peak, last, heldout = (score(results, run) for score in (peak_score, last_score, heldout_score))
    final_heldout = final_heldout_score(results, run)
    fall = fall_after_peak(results, run)
    ended = run.outcome or run.missing
    model = model_that_ran([run])
    table.records.append(
        {
            "run_id": run.id,
            "name": run.run.name,
            **{axis: run.run.axes.get(axis) for axis in axes},
            "outcome": ended,
            "model_that_ran": model,
            "peak": _value(peak),
            "peak_step": peak.step if peak else None,
            "last": _value(last),
            "last_step": last.step if last else None,
            "heldout": _value(heldout),
            "heldout_final": _value(final_heldout),
            "fell_after_peak": str(fall) if fall else "",
        }
    )
    tone: Tone = "missing" if run.missing else "dim" if ended == FINISHED else ""
    cells = (
        Cell(run.id, title=run.run.name),
        *(Cell(label(spell(run.run.axes.get(axis, "")))) for axis in axes),
        Cell(ended, tone=tone),
        Cell(model, title=run.tag("plat.summary.model_really") or ""),
        _percent(peak),
        _step(peak),
        _percent(last),
        _step(last),
        _percent(heldout),
        _percent(final_heldout),
        Cell("↓ fell" if fall else "", tone="missing" if fall else "", title=str(fall) if fall else ""),
    )
    table.rows.append(Row(cells))


def _value(score: Measurement | None) -> float | None:
    return score.value if score else None


def _percent(score: Measurement | None) -> Cell:
    return Cell(number(100 * score.value) if score else DASH)


def _step(score: Measurement | None) -> Cell:
    return Cell(DASH if score is None or score.step is None else str(score.step))
