"""Tabulate every point of a search for a regime: its axes, retrieval, fluency, success, and regimes."""

from __future__ import annotations

from collections.abc import Mapping

from plat_analysis.artifact import Cell, Column, Note, Row, Table, number
from plat_analysis.builder_options import takes
from plat_analysis.data.labels import label
from plat_analysis.data.results import Results
from plat_ragen2.regimes.points import Point, points, varied_axes
from plat_ragen2.regimes.regime import Thresholds

MEASURED = [
    (Column("start", "retrieval"), "retrieval_start"),
    (Column("high", "retrieval"), "retrieval_high"),
    (Column("end", "retrieval"), "retrieval_end"),
    (Column("fluent", "at the end"), "fluent_end"),
    (Column("templates", "at the end"), "templates_end"),
    (Column("start", "success"), "success_start"),
    (Column("end", "success"), "success_end"),
]


@takes(reads={"thresholds": Thresholds.read})
def build(results: Results, *, thresholds: Mapping[str, float] | None = None, name: str = "search") -> list[Table]:
    """A row for each point of the matrix, its seeds and builds together: means of what was measured, and the regimes.

    thresholds  of the regimes, by name (`regimes.regime`)
    """
    limits = Thresholds.read(thresholds)
    axes = varied_axes(results)
    tried = points(results, axes, limits)
    headings = [Column(axis.rpartition(".")[2]) for axis in axes]
    table = Table(
        name=name,
        title="Every point that was tried",
        columns=[*headings, Column("runs"), *(column for column, _ in MEASURED), Column("regime", numeric=False)],
        rows=[_row(point) for point in tried],
        caption=(
            "Means over the runs of a point. Retrieval of fresh reasonings: before training, the highest of the first "
            "half of the run, and at the end. Fluent: the share that is a sentence of the demonstrations' grammar. "
            "Success: on the validation instances."
        ),
        notes=[Note(f"The rule: {limits}.")],
        records=[_record(point) for point in tried],
    )
    for point in tried:
        place = "/".join(f"{axis}={value}" for axis, value in point.values.items())
        table.values |= {f"{name}/{place}/{kind}": float(count) for kind, count in point.regimes.items()}
    return [table]


def _row(point: Point) -> Row:
    finished = len(point.finished)
    title = "runs " + " ".join(item.run.id for item in point.runs)
    return Row(
        (
            *(Cell(label(value)) for value in point.values.values()),
            Cell(f"{finished}/{len(point.runs)}" if finished < len(point.runs) else str(finished), title=title),
            *(Cell(number(point.mean(quantity), 2), title=title) for _, quantity in MEASURED),
            Cell(_words(point), tone="" if finished else "missing", title=title),
        )
    )


def _words(point: Point) -> str:
    """Return `diverse`, or `diverse 3, noise 2`; without results, why there are none."""
    counts = point.regimes
    if not counts:
        return ", ".join(dict.fromkeys(item.run.missing for item in point.runs))
    if len(point.finished) == 1:
        return next(iter(counts))
    return ", ".join(f"{kind} {count}" for kind, count in counts.most_common())


def _record(point: Point) -> dict[str, object]:
    return {
        **point.values,
        "runs": len(point.finished),
        "runs_wanted": len(point.runs),
        **{quantity: point.mean(quantity) for _, quantity in MEASURED},
        "regimes": _words(point),
        "run_ids": " ".join(item.run.id for item in point.runs),
    }
