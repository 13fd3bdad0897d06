"""Table 4 against slow independent computations, with every kind of hole."""

from __future__ import annotations

import csv
import io
from dataclasses import replace

import numpy as np
import pytest

from plat.errors import SpecError
from plat_analysis.artifact import DASH
from plat_analysis.contrasts.comparison import Comparison
from plat_analysis.data.results import Results
from plat_analysis.quantities.quantity import peak_score
from plat_analysis.report import render
from plat_analysis.statistics.intervals import Estimate, newcombe_paired, t_interval
from plat_analysis.tables import peak_success
from plat_analysis.tables.peak_notes import star_rule

COMPARED = Comparison(rows="variant")


def estimate(grid, column, name):
    return grid.estimate("PPO", column, grid.contrasts[name])


def instances(frames, run, table, pick):
    entries = [
        data
        for _, at, name, step, data in frames.tables.itertuples()
        if (at, name) == (run, table) and pick(step, data)
    ]
    return np.array(entries[0]["success"])


def peak(frames, run):
    rows = frames.metrics[(frames.metrics.run_id == run) & (frames.metrics.key == "val/success")]
    best = rows.loc[rows["value"].idxmax()]
    return best["value"], best["step"]


def texts(table, row, kind):
    """The cells of one line of the table: numbers as shown."""
    at = next(i for i, line in enumerate(table.rows) if line.cells[0].text == row)
    line = next(line for line in table.rows[at:] if line.cells[1].text == kind)
    return [cell.text for cell in line.cells[2:]]


def test_one_seed_against_the_slow_way(make_experiment, make_frames):
    experiment = make_experiment(rows=["PPO", "GRPO"], tasks=["sokoban", "frozenlake"])
    frames = make_frames(experiment)
    grid = COMPARED.grid(Results.of(frames, experiment))
    none, treated = experiment.runs[0].id, experiment.runs[1].id
    cell = {name: estimate(grid, "sokoban", name) for name in grid.contrasts}
    (p, p_step), (q, q_step) = peak(frames, none), peak(frames, treated)
    assert cell["peak"].value == pytest.approx(100 * p)
    assert cell["delta"].value == pytest.approx(100 * (q - p))
    x = instances(frames, none, "val_instances", lambda step, _: step == p_step)
    y = instances(frames, treated, "val_instances", lambda step, _: step == q_step)
    bounds = [100 * bound for bound in newcombe_paired(x, y)]
    assert [cell["delta"].low, cell["delta"].high] == pytest.approx(bounds) and cell["delta"].over == "instances"
    base = instances(frames, none, "heldout_instances", lambda _, data: data["role"] == "base")
    end = instances(frames, none, "heldout_instances", lambda _, data: data["role"] == "peak")
    assert cell["learned"].value == pytest.approx(100 * (end.mean() - base.mean()))
    assert cell["learned"].low == pytest.approx(100 * newcombe_paired(base, end)[0])
    assert cell["delta"].run_ids == (none, treated)
    row = estimate(grid, "average", "delta")
    assert row.value == pytest.approx(np.mean([estimate(grid, task, "delta").value for task in grid.columns]))
    assert row.low < row.value < row.high and row.high - row.low < cell["delta"].high - cell["delta"].low


def test_several_seeds_are_paired_by_seed(make_experiment, make_frames):
    experiment = make_experiment(rows=["PPO"], tasks=["sokoban", "countdown"], seeds=range(4))
    frames = make_frames(experiment)
    grid = COMPARED.grid(Results.of(frames, experiment))
    by = {(run.axes["task"], run.axes["filter"], run.axes["seed"]): peak(frames, run.id)[0] for run in experiment.runs}
    gaps = {task: [by[task, "top_p", s] - by[task, "none", s] for s in range(4)] for task in ("sokoban", "countdown")}
    delta = estimate(grid, "sokoban", "delta")
    assert [delta.value, delta.low, delta.high] == pytest.approx([100 * float(x) for x in t_interval(gaps["sokoban"])])
    assert (delta.seeds, delta.wanted, delta.over) == (4, 4, "seeds")
    mean, low, high = t_interval(np.mean([gaps["sokoban"], gaps["countdown"]], axis=0))
    average = estimate(grid, "average", "delta")
    assert [average.value, average.low, average.high] == pytest.approx([100 * float(x) for x in (mean, low, high)])


def test_the_last_checkpoint_has_an_interval_of_its_own(make_experiment, make_frames):
    experiment = make_experiment(rows=["PPO"], tasks=["sokoban"], seeds=range(4))
    frames = make_frames(experiment)
    change = estimate(COMPARED.grid(Results.of(frames, experiment)), "sokoban", "final_delta")
    shown = texts(peak_success.build(frames, experiment)[0], "PPO", "final 95 %")[1]
    low, high = (float(end) for end in shown.replace("−", "-").strip("[]").split(", "))
    assert (low, high) == (pytest.approx(change.low, abs=0.051), pytest.approx(change.high, abs=0.051))


def test_what_two_builds_show_is_starred_about_these_builds(make_experiment, make_frames):
    experiment = make_experiment(rows=["PPO"], tasks=["sokoban"], seeds=range(5), builds=(0, 1))
    frames = make_frames(experiment, effect=0.5)
    such, these = (peak_success.build(frames, experiment, builds=builds)[0] for builds in ("random", "fixed"))
    line = next(record for record in these.records if record["quantity"] == "delta")
    assert (line["star"], line["interval_over"], line["interval_about"]) == (1, "seeds", "these 2 builds")
    assert any("about these 2 builds of each base model" in note.text for note in these.notes)
    assert not any(record["star"] for record in such.records) and "No change has a star" in such.fine_print


def test_a_lost_seed_is_counted_and_named(make_experiment, make_frames):
    experiment = make_experiment(rows=["PPO"], tasks=["sokoban", "countdown"], seeds=range(5))
    lost = next(
        r
        for r in experiment.runs
        if r.axes["task"] == "sokoban" and r.axes["filter"] == "top_p" and r.axes["seed"] == 3
    )
    frames = make_frames(experiment, holes={lost.id: "failed:oom"})
    grid = COMPARED.grid(Results.of(frames, experiment))
    delta = estimate(grid, "sokoban", "delta")
    assert (delta.seeds, delta.wanted, delta.note) == (4, 5, "seed 3: failed:oom") and lost.id not in delta.run_ids
    average = estimate(grid, "average", "delta")
    assert (average.seeds, average.wanted) == (4, 5) and "sokoban: seed 3: failed:oom" in average.note
    table = peak_success.build(frames, experiment)[0]
    assert texts(table, "PPO", "seeds") == ["5/5", "4/5", "5/5", "5/5", "5/5", "4/5"]
    assert any("4/5" in line for line in render.markdown(table).splitlines())
    assert any(lost.name in note.text and "failed:oom" in note.text for note in table.notes)


@pytest.mark.parametrize("outcome, shown", [("failed:oom", "failed:oom"), ("absent", "not run"), (None, "unfinished")])
def test_a_missing_run_leaves_a_blank_with_its_reason(make_experiment, make_frames, outcome, shown):
    experiment = make_experiment(rows=["PPO"], tasks=["sokoban", "countdown"])
    frames = make_frames(experiment, holes={experiment.runs[1].id: outcome})
    table = peak_success.build(frames, experiment, paper="table4")[0]
    assert texts(table, "PPO", "peak")[0] != DASH and texts(table, "PPO", "peak")[1] == DASH
    assert texts(table, "PPO", "95 %")[1] == shown
    assert texts(table, "PPO", "peak")[-1] == DASH and texts(table, "PPO", "95 %")[-1] == "1 of 2"
    assert texts(table, "PPO", "paper")[:2] == ["12.9", "+16.0"]


def test_a_stopped_run_counts_and_is_named(make_experiment, make_frames):
    experiment = make_experiment(rows=["PPO"], tasks=["sokoban"])
    frames = make_frames(experiment, holes={experiment.runs[0].id: "stopped:reward_variance_collapse"})
    table = peak_success.build(frames, experiment)[0]
    assert DASH not in texts(table, "PPO", "peak")
    assert any("stopped:reward_variance_collapse" in note.text for note in table.notes)


def test_only_means_known_gives_an_unpaired_interval(make_experiment, make_frames):
    experiment = make_experiment(rows=["PPO"], tasks=["sokoban"])
    frames = make_frames(experiment)
    paired = estimate(COMPARED.grid(Results.of(frames, experiment)), "sokoban", "delta")
    frames.tables = frames.tables.iloc[:0]
    loose = estimate(COMPARED.grid(Results.of(frames, experiment)), "sokoban", "delta")
    assert loose.value == pytest.approx(paired.value) and "not paired" in loose.note
    assert loose.high - loose.low > paired.high - paired.low


def test_paper_numbers_sections_and_contradictions(make_experiment, make_frames):
    experiment = make_experiment()
    table = peak_success.build(make_frames(experiment, steps=20), experiment)[0]  # entries by its source, Table 4
    assert texts(table, "GRPO", "paper")[2:4] == ["70.9", "−3.0"] and texts(table, "GRPO", "paper")[-2:] == [
        "67.5",
        "+3.7",
    ]
    assert [row.section for row in table.rows if row.section] == ["Algorithm (Qwen2.5-3B)", "Scale (PPO)", "Type (PPO)"]
    marked = [cell for row in table.rows for cell in row.cells if cell.mark]
    assert [(cell.text, cell.mark) for cell in marked] == [("−3.0", "a")]
    notes = [(note.mark, note.text) for note in table.notes]
    assert notes[0][0] == "a" and "+2.3" in notes[0][1]
    assert any("standard deviation" in text for _, text in notes) and not any("Search" in text for _, text in notes)
    assert any("stand-ins" in text for _, text in notes)
    assert {row.cells[0].text for row in table.rows} >= {"stand-in, 105k"}


def test_a_contradiction_about_a_row_that_is_not_there_is_left_out(make_experiment, make_frames):
    experiment = make_experiment(rows=["PPO"], tasks=["frozenlake"])
    table = peak_success.build(make_frames(experiment, steps=20), experiment)[0]
    assert not any(note.mark or "GRPO" in note.text for note in table.notes)


def test_csv_holds_every_cell_with_run_ids(make_experiment, make_frames):
    experiment = make_experiment(rows=["PPO", "GRPO"], tasks=["sokoban", "countdown"])
    table = peak_success.build(make_frames(experiment), experiment, paper="table4")[0]
    lines = list(csv.DictReader(io.StringIO(render.tidy(table.records))))
    deltas = {(line["row"], line["column"]): line for line in lines if line["quantity"] == "delta"}
    assert set(deltas) == {(r, c) for r in ("PPO", "GRPO") for c in ("sokoban", "countdown", "average")}
    line = deltas["PPO", "sokoban"]
    assert line["run_ids"].split() == [run.id for run in experiment.runs[:2]]
    assert float(line["paper"]) == 16.0 and "baseline seed 0: finished" in line["outcomes"]
    assert len(deltas["PPO", "average"]["run_ids"].split()) == 4


def test_two_runs_in_one_cell_are_refused(make_experiment, make_frames):
    experiment = make_experiment(rows=["PPO", "GRPO"], tasks=["sokoban"])
    with pytest.raises(SpecError, match="more than one run"):
        peak_success.build(make_frames(experiment), experiment, rows="filter")


def test_conditions_that_no_run_has_are_refused(make_experiment, make_frames):
    experiment = make_experiment(rows=["PPO"], tasks=["sokoban"])
    with pytest.raises(SpecError, match="no run has filter"):
        peak_success.build(make_frames(experiment), experiment, baseline="nothing", treatment="top_k")
    with pytest.raises(SpecError, match="no table 'table77'"):
        peak_success.build(make_frames(experiment), experiment, paper="table77")


def test_the_peak_is_the_largest_evaluation_and_the_first_of_equals(make_experiment, make_frames):
    experiment = make_experiment(rows=["PPO"], tasks=["sokoban"])
    frames = make_frames(experiment)
    rows = (frames.metrics.run_id == experiment.runs[0].id) & (frames.metrics.key == "val/success")
    frames.metrics.loc[rows, "value"] = [0.1, 0.5, float("nan"), 0.5, 0.2, 0.3, 0.4]
    results = Results(frames, experiment)
    score = peak_score(results, results.runs[0])
    assert score.value == 0.5 and score.step == 10


def test_a_remark_on_a_column_stands_under_tables_with_that_column(make_experiment, make_frames):
    remark = {"topic": "Holes", "text": "blind to holes", "column": "frozenlake", "artifacts": ["table4"]}
    for tasks, expected in ((["sokoban", "frozenlake"], 1), (["sokoban"], 0)):
        experiment = make_experiment(["PPO"], tasks)
        experiment = replace(experiment, paper_data=experiment.paper_data | {"discrepancies": [remark]})
        table = peak_success.build(make_frames(experiment), experiment)[0]
        assert sum(note.text == "blind to holes" for note in table.notes) == expected


def test_a_remark_on_a_row_stands_under_tables_with_that_row(make_experiment, make_frames):
    remark = {"topic": "Runs", "text": "no such run is public", "row": "GRPO", "artifacts": ["table4"]}
    for rows, expected in ((["PPO", "GRPO"], 1), (["PPO"], 0)):
        experiment = make_experiment(rows, ["sokoban"])
        experiment = replace(experiment, paper_data=experiment.paper_data | {"discrepancies": [remark]})
        table = peak_success.build(make_frames(experiment), experiment)[0]
        assert sum(note.text == "no such run is public" for note in table.notes) == expected


def test_a_file_without_a_paper_is_compared_with_none(make_experiment, make_frames):
    experiment = replace(make_experiment(rows=["PPO"], tasks=["sokoban"]), paper=None, paper_data={})
    table = peak_success.build(make_frames(experiment, steps=20), experiment)[0]
    assert any("stand-ins" in note.text for note in table.notes) and not any("paper" in n.text for n in table.notes)


def test_the_fine_print_of_all_tables_has_the_same_words():
    (few, many) = (star_rule([Estimate(value=1.0, error=0.5, units=5, freedom=4)] * count) for count in (1, 3))
    assert few == many and "over all changes of the table is controlled at 5 %" in many
