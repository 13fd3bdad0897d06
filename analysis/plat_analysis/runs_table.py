"""Every wanted run with how it ended, what really ran, and its peak: the way from any number back to its runs."""

from __future__ import annotations

from plat_analysis.artifact import DASH, Cell, Column, Row, Table, number
from plat_analysis.labels import label, model_really
from plat_analysis.results import Results
from plat_analysis.scores import heldout_score, peak_score


def runs_table(results: Results) -> Table:
    """One line per run of the experiment file, in its order."""
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
            Column("peak %"),
            Column("at step"),
            Column("held-out %"),
            Column("last step"),
        ],
        rows=[],
        printed=False,
    )
    for run in results.runs:
        peak, heldout = peak_score(results, run), heldout_score(results, run)
        last = results.last_step(run.id)
        ended = run.outcome or run.missing
        tone = "missing" if run.missing else "dim" if ended == "finished" else ""
        record = {
            "run_id": run.id,
            "name": run.run.name,
            **{axis: run.run.axes.get(axis) for axis in axes},
            "outcome": ended,
            "model_that_ran": model_really([run]),
            "peak": peak.value if peak else None,
            "peak_step": peak.step if peak else None,
            "heldout": heldout.value if heldout else None,
            "last_step": last,
            "mlflow_id": run.facts.get("mlflow_id"),
        }
        table.records.append(record)
        table.rows.append(
            Row(
                (
                    Cell(run.id, title=run.run.name),
                    *(Cell(label(str(run.run.axes.get(axis, "")))) for axis in axes),
                    Cell(ended, tone=tone),
                    Cell(str(record["model_that_ran"]), title=run.tag("plat.summary.model_really") or ""),
                    Cell(number(100 * peak.value) if peak else DASH),
                    Cell(str(peak.step) if peak else DASH),
                    Cell(number(100 * heldout.value) if heldout else DASH),
                    Cell(DASH if last is None else str(last)),
                )
            )
        )
    return table
