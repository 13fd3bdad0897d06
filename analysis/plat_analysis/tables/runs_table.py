"""List every wanted run with its outcome, the model that ran, its peak and its end."""

from __future__ import annotations

from itertools import compress

from plat.words.metric_names import SUCCESS, VAL_SUCCESS
from plat.words.outcomes import FINISHED
from plat_analysis.artifact import DASH, Cell, Column, Row, Table, Tone, number
from plat_analysis.data.labels import label, model_that_ran
from plat_analysis.data.results import Results, RunView, spell
from plat_analysis.quantities.quantity import Measurement
from plat_analysis.quantities.success import fall_after_peak, final_heldout_score, heldout_score, last_score, peak_score


def runs_table(results: Results) -> Table:
    """Return a line for each run of the file, in its order, with or without a result; without empty columns."""
    axes = list(results.experiment.axes) or sorted({axis for run in results.runs for axis in run.run.axes})
    rate = "validation %" if VAL_SUCCESS in results.headlines else f"{results.metric(SUCCESS)} %"
    heads = [Column(axis, numeric=False) for axis in axes]
    table = Table(
        name="runs",
        title="Runs",
        columns=[
            Column("run", numeric=False),
            *heads,
            Column("outcome", numeric=False),
            Column("model that ran", numeric=False),
            *(Column(title, rate) for title in ("peak", "at step", "last", "at step")),
            Column("peak", "held-out %"),
            Column("final", "held-out %"),
            Column("fell after its peak", numeric=False),
        ],
        rows=[],
        printed=False,
    )
    for run in results.runs:
        _add(table, results, run, axes)
    filled = [any(row.cells[at].text not in ("", DASH) for row in table.rows) for at in range(len(table.columns))]
    table.columns = list(compress(table.columns, filled))
    table.rows = [Row(tuple(compress(row.cells, filled))) for row in table.rows]
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
