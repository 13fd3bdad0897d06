"""The table of measures by conditions against a slow computation, with the paper's numbers beside it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from plat.errors import SpecError
from plat_analysis.tables.measures_table import build

FILTERS = ("none", "random", "top_p")
MEASURES = {"peak": "peak", "retrieval": {"metric": "mi/first_turn/retrieval_acc", "at": "peak"}}
PRINTED = {"rows": {"sokoban": {"none": {"peak": 12.9, "retrieval": 0.5}, "top_p": {"peak": 28.9}}}}


@pytest.fixture
def table(make_experiment, make_frames):
    experiment = make_experiment(rows=["PPO"], tasks=["sokoban", "frozenlake"], filters=FILTERS, seeds=range(5))
    experiment = replace(experiment, source="Table 7", paper_data={"tables": {"table7": PRINTED}})
    frames = make_frames(experiment)
    (made,) = build(
        frames, experiment, rows="task", conditions="filter", measures=MEASURES, against={"top_p": "random"}
    )
    return experiment, frames, made


def at_peak(frames, run, key):
    success = frames.metrics[(frames.metrics.run_id == run) & (frames.metrics.key == "val/success")]
    best = success.loc[success["value"].idxmax()]
    if key == "peak":
        return 100 * best["value"]
    rows = frames.metrics[(frames.metrics.run_id == run) & (frames.metrics.key == "mi/first_turn/retrieval_acc")]
    return rows[rows["step"] <= best["step"]]["value"].iloc[-1]


def test_levels_and_changes_are_the_means_over_seeds(table):
    experiment, frames, made = table
    runs = {(r.axes["task"], r.axes["filter"], r.axes["seed"]): r.id for r in experiment.runs}
    for line in made.records:
        ours = [at_peak(frames, runs[line["row"], line["condition"], s], line["measure"]) for s in range(5)]
        if line["against"]:
            assert line["against"] == ("random" if line["condition"] == "top_p" else "none")
            theirs = [at_peak(frames, runs[line["row"], line["against"], s], line["measure"]) for s in range(5)]
            ours = np.subtract(ours, theirs)
        assert line["value"] == pytest.approx(np.mean(ours)) and line["seeds"] == 5
    assert len(made.records) == 2 * 2 * (3 + 2)


def test_the_paper_stands_beside_what_it_printed_only(table):
    _, _, made = table
    kinds = [(row.cells[0].text, row.cells[1].text) for row in made.rows]
    assert [kind for _, kind in kinds].count("paper") == 2  # none and top_p of Sokoban
    papers = [[cell.text for cell in row.cells[2:]] for row in made.rows if row.cells[1].text == "paper"]
    assert papers == [["12.9", "", "0.50", ""], ["28.9", "", "", ""]]  # random is not printed, so no change is
    assert any("Compared: random with no filter, Top-p with random" in note.text for note in made.notes)


@pytest.mark.parametrize(
    "arguments, what",
    [
        ({"baseline": "all"}, "the axis 'filter' has no value 'all'"),
        ({"against": {"top_p": "rnadom"}}, "no value 'rnadom'"),
        ({"measures": {"a": {"metric": "x", "at": "middle"}}}, "is not start, end, peak or an iteration"),
    ],
)
def test_what_there_is_not_is_refused(make_experiment, make_frames, arguments, what):
    experiment = make_experiment(rows=["PPO"], tasks=["sokoban"], filters=FILTERS)
    given = {"conditions": "filter", "measures": MEASURES} | arguments
    with pytest.raises(SpecError, match=what):
        build(make_frames(experiment), experiment, **given)


def test_a_missing_run_leaves_a_dash_and_its_reason(make_experiment, make_frames):
    experiment = make_experiment(rows=["PPO"], tasks=["sokoban"], filters=FILTERS)
    frames = make_frames(experiment, holes={experiment.runs[2].id: "failed:oom"})
    (made,) = build(frames, experiment, conditions="filter", measures={"peak": "peak"})
    treated = next(row for row in made.rows if row.cells[0].text == "Top-p")
    assert [cell.text for cell in treated.cells[2:]] == ["—", "—"]
    assert "failed:oom" in " ".join(note.text for note in made.notes)


def test_conditions_of_the_same_runs_are_not_compared(make_experiment, make_frames):
    experiment = make_experiment(rows=["PPO"], tasks=["sokoban"], filters=["none", "top_p"], seeds=range(5))
    twice = [({**axes, "filter": "again"}, run) for axes, run in experiment.cells if axes["filter"] == "none"]
    experiment = replace(experiment, cells=[*experiment.cells, *twice])
    (made,) = build(make_frames(experiment), experiment, conditions="filter", measures={"peak": "peak"})
    assert [line["condition"] for line in made.records if line["against"]] == ["top_p"]
    assert any("again and no filter are the same runs" in note.text for note in made.notes)
