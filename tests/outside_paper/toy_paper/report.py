"""The toy paper's only figure, as a table: final success of each policy beside the published one."""

from __future__ import annotations

from typing import Any

from plat_analysis.artifact import Cell, Column, Row, Table, number


def final_success(frames: Any, experiment: Any) -> dict[str, dict[str, float]]:
    """policy -> run id -> validation success in percent at the last step, for every run that has one."""
    success = frames.metrics[frames.metrics["key"] == "val/games_won"].sort_values("step")
    last = success.groupby("run_id")["value"].last()
    successes: dict[str, dict[str, float]] = {}
    for run in experiment.runs:
        values = successes.setdefault(run.axes["policy"], {})
        if run.id in last.index:
            values[run.id] = 100 * float(last[run.id])
    return successes


def build(frames: Any, experiment: Any, *, name: str = "toy_success") -> list[Table]:
    """One row per policy: mean over seeds, number of seeds, the published value."""
    printed = experiment.paper_data.get("tables", {}).get("figure_1", {})
    rows, values = [], {}
    for policy, runs in final_success(frames, experiment).items():
        mean = sum(runs.values()) / len(runs) if runs else None
        cells = (
            Cell(policy),
            Cell(number(mean), title="runs " + " ".join(runs)),
            Cell(str(len(runs))),
            Cell(number(printed.get(policy))),
        )
        rows.append(Row(cells))
        if mean is not None:
            values[f"toy/{policy}"] = mean
    columns = [Column("policy", numeric=False), Column("success, %"), Column("seeds"), Column("published, %")]
    return [Table(name=name, title=experiment.title, columns=columns, rows=rows, values=values)]


BUILDER = build
