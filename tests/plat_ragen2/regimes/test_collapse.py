"""The figure and the tables of a collapse tell known truths."""

from __future__ import annotations

import io

import numpy as np
import pandas as pd
import pytest
from rich.console import Console

from plat_analysis.artifact import Figure, Table
from plat_analysis.report.terminal import print_table
from plat_ragen2.regimes import collapse


def quickstart(make_experiment, **fields):
    return make_experiment(rows=["GRPO"], tasks=["frozenlake"], **fields)


def build(make_experiment, make_frames, holes=(), **fields):
    experiment = quickstart(make_experiment, seeds=range(5))
    lost = {experiment.runs[index].id: outcome for index, outcome in holes}
    frames = make_frames(experiment, holes=lost, steps=120, **fields)
    figure, regimes, differences = collapse.build(frames, experiment)
    assert isinstance(figure, Figure) and isinstance(regimes, Table) and isinstance(differences, Table)
    return experiment, frames, figure, regimes, differences


def test_collapse_of_a_known_truth(make_experiment, make_frames):
    experiment, _, figure, regimes, differences = build(make_experiment, make_frames)
    kinds = {line["run_id"]: line["regime"] for line in regimes.records}
    filtered = {run.id: run.axes["filter"] == "top_p" for run in experiment.runs}
    assert all(kinds[run] == ("diverse" if filtered[run] else "template collapse") for run in kinds)
    assert regimes.values == {"collapse_regimes/none/template collapse": 5.0, "collapse_regimes/top_p/diverse": 5.0}
    gap = next(r for r in differences.records if (r["quantity"], r["what"]) == ("retrieval", "difference"))
    assert 0.4 < gap["low"] < gap["value"] < gap["high"] < 0.65 and gap["seeds"] == 5
    fall = next(r for r in differences.records if (r["quantity"], r["what"]) == ("retrieval", "change"))
    rise = next(r for r in differences.records if (r["quantity"], r["what"]) == ("entropy", "change"))
    assert fall["high"] < 0 < rise["low"]  # input dependence is lost while entropy is not
    drawn = figure.draw()
    assert [axis.get_title() for axis in drawn.axes][:2] == ["Retrieval accuracy", "Reasoning entropy H(Z|X)"]
    words = [text.get_text() for axis in drawn.axes for text in axis.texts]
    assert any("uniform tokens: 3.61" in word for word in words) and any("chance 12.5 %" in word for word in words)


def test_chance_and_valid_reasonings_stand_beside_retrieval(make_experiment, make_frames):
    experiment, frames, figure, regimes, differences = build(make_experiment, make_frames)
    said = "Retrieval accuracy, chance from start to end: no filter 0.125 → 0.125, Top-p 0.125 → 0.125."
    assert said in [note.text for note in differences.notes]
    assert not any("valid reasonings" in note.text for note in differences.notes)
    for line in regimes.records:
        probe = frames.tables[(frames.tables.run_id == line["run_id"]) & (frames.tables.name == "probe")]["data"].iloc[
            -1
        ]
        assert (line["retrieval_chance"], line["reasonings_that_parse"]) == (1 / 8, sum(probe["fluent"]))
    first = regimes.records[0]
    assert any(f"{first['reasonings_that_parse']} of 512 parse" in note.text for note in regimes.notes)
    accuracy = frames.metrics[frames.metrics.key == "mi/first_turn/retrieval_acc"]
    counts = accuracy.assign(key="mi/first_turn/valid_reasonings", value=64.0 - accuracy.step // 5)
    chance = frames.metrics.key == "mi/first_turn/retrieval_chance"
    frames.metrics.loc[chance, "value"] += 0.001 * frames.metrics.loc[chance, "step"]
    frames.metrics = pd.concat([frames.metrics, counts])
    figure, _, differences = collapse.build(frames, experiment)
    steps = np.unique(accuracy.step)
    end = np.mean(64 - steps[-3:] // 5)
    notes = [note.text for note in differences.notes]
    both = f"64.0 → {end:.1f}"
    assert f"Retrieval accuracy, valid reasonings from start to end: no filter {both}, Top-p {both}." in notes
    assert any(f"0.126 → {np.mean(0.125 + 0.001 * steps[-3:]):.3f}" in note for note in notes)
    retrieval = figure.draw().axes[0]
    assert not any("chance" in text.get_text() for text in retrieval.texts)  # it changes, so it is a dotted line
    assert any(
        np.allclose(line.get_ydata(), 0.125 + 0.001 * steps)
        for line in retrieval.lines
        if len(steps) == len(line.get_ydata())
    )
    assert "64 valid reasonings" in figure.caption


def test_the_difference_of_the_ends_the_slow_way(make_experiment, make_frames):
    experiment, frames, _, _, differences = build(make_experiment, make_frames)
    ends = {}
    for run in experiment.runs:
        rows = frames.metrics[(frames.metrics.run_id == run.id) & (frames.metrics.key == "actor/entropy")]
        ends[run.axes["filter"], run.axes["seed"]] = rows.sort_values("step")["value"].tail(3).mean()
    gaps = [ends["top_p", seed] - ends["none", seed] for seed in range(5)]
    shown = next(r for r in differences.records if (r["quantity"], r["what"]) == ("actor_entropy", "difference"))
    assert shown["value"] == pytest.approx(np.mean(gaps))


def test_runs_of_several_builds_are_told_apart(make_experiment, make_frames):
    experiment = quickstart(make_experiment, seeds=range(2), builds=[0, 1])
    regimes = collapse.build(make_frames(experiment, steps=120), experiment)[1]
    assert regimes.columns[0].title == "build"
    shown = [(row.cells[0].text, row.cells[1].text) for row in regimes.rows]
    assert shown == [("0", "0"), ("0", "1"), ("1", "0"), ("1", "1")] * 2
    assert any("build 1 seed 1 " in note.text for note in regimes.notes)


def test_a_lost_seed_of_the_collapse_is_named(make_experiment, make_frames):
    _, _, _, regimes, differences = build(make_experiment, make_frames, holes=[(0, "failed:oom")])
    assert differences.rows[0].cells[-1].text == "4/5"
    assert any("failed:oom" in note.text for note in differences.notes)
    assert any("template collapse 4/5" in note.text for note in regimes.notes)
    assert regimes.rows[0].cells[1].text == "failed:oom"


@pytest.mark.parametrize("measured", [1, 2, 12])
def test_a_stopped_run_has_no_end_to_compare(make_experiment, make_frames, measured):
    experiment = quickstart(make_experiment, seeds=range(2))
    run = experiment.runs[2]  # seed 0 of top_p comes after both seeds of none
    frames = make_frames(experiment, holes={run.id: "stopped:empty_batches"}, steps=120)
    frames.metrics = frames.metrics[(frames.metrics.run_id != run.id) | (frames.metrics.step < 5 * measured)]
    _, regimes, differences = collapse.build(frames, experiment)
    marks = {line["run_id"]: row.cells[1].mark for line, row in zip(regimes.records, regimes.rows, strict=True)}
    footnotes = {note.mark: note.text for note in regimes.notes if note.mark}
    assert "stopped:empty_batches" in footnotes[marks[run.id]], "a stopped run has a final checkpoint, and so a regime"
    assert sum(regimes.values.values()) == 4
    for row in differences.rows[::2]:
        assert row.cells[-1].text == "1/2"
    assert all(record["low"] is None for record in differences.records if record["what"] == "difference")
    assert any("stopped:empty_batches at step" in note.text for note in differences.notes)


def test_a_finished_run_with_few_measurements_has_no_end(make_experiment, make_frames):
    experiment = quickstart(make_experiment, seeds=range(2))
    _, _, differences = collapse.build(make_frames(experiment, steps=120), experiment, last=30)
    assert any("24 measurements" in note.text for note in differences.notes)
    shown = {record["quantity"]: record["seeds"] for record in differences.records if record["what"] == "difference"}
    assert shown["retrieval"] == 0 and shown["actor_entropy"] == 2, "the policy's entropy has 120"


def test_nothing_measured_is_said_not_invented(make_experiment, make_frames):
    experiment = quickstart(make_experiment, seeds=range(2))
    frames = make_frames(experiment)
    frames.metrics = frames.metrics[~frames.metrics["key"].str.startswith("mi/")]
    frames.tables = frames.tables[frames.tables["name"] != "probe"]
    figure, regimes, differences = collapse.build(frames, experiment)
    assert {row.cells[1].text for row in regimes.rows} == {"unknown"}
    assert any(note.mark and note.text == "its reasonings were not probed" for note in regimes.notes)
    assert "not measured" in [text.get_text() for axis in figure.draw().axes for text in axis.texts]
    assert any("not measured" in note.text for note in differences.notes)


def test_the_end_of_validation_success_is_the_last_evaluation(make_experiment, make_frames):
    experiment = quickstart(make_experiment, seeds=range(3))
    frames = make_frames(experiment)
    differences = collapse.build(frames, experiment)[2]
    rows = frames.metrics[frames.metrics.key == "val/success"].sort_values("step").groupby("run_id")["value"]
    change = rows.last() - rows.first()
    expected = np.mean([change[run.id] for run in experiment.runs if run.axes["filter"] == "none"])
    shown = next(r for r in differences.records if (r["quantity"], r["what"]) == ("success", "change"))
    assert shown["value"] == pytest.approx(expected)
    assert "Success and moves are those of the first and the last evaluation" in differences.notes[0].text


def test_the_return_ends_with_the_mean_of_its_last_evaluations(make_experiment, make_frames):
    """Costs are small beside the noise of one evaluation, and the return alone says what a loss cost the policy."""
    experiment = quickstart(make_experiment, seeds=range(3))
    frames = make_frames(experiment)
    ends = {}
    for run in experiment.runs:
        rows = frames.metrics[(frames.metrics.run_id == run.id) & (frames.metrics.key == "val/return")]
        ends[run.axes["filter"], run.axes["seed"]] = rows.sort_values("step")["value"].to_numpy()[-4:].mean()
    differences = collapse.build(frames, experiment)[2]
    shown = next(r for r in differences.records if (r["quantity"], r["what"]) == ("returns", "difference"))
    expected = np.mean([ends["top_p", seed] - ends["none", seed] for seed in range(3)])
    assert shown["value"] == pytest.approx(expected)


def test_both_tables_of_the_collapse_fit_80_columns(make_experiment, make_frames):
    experiment = quickstart(make_experiment, seeds=range(5))
    stopped = make_frames(experiment, holes={experiment.runs[0].id: "stopped:low_success"}, steps=120)
    whole = make_frames(experiment)
    assert any(record["star"] for record in collapse.build(whole, experiment)[2].records), "stars take room"
    for frames in (stopped, whole):
        _check_width(frames, experiment)


def _check_width(frames, experiment):
    for table in collapse.build(frames, experiment)[1:]:
        console = Console(width=80, file=io.StringIO(), color_system=None)
        print_table(console, table)
        assert max(map(len, console.file.getvalue().splitlines())) <= 80


def test_the_start_the_highest_and_the_end_of_retrieval_are_shown(make_experiment, make_frames, make_probe):
    experiment = quickstart(make_experiment)
    frames = make_frames(experiment)
    fallen = experiment.runs[0]
    rng = np.random.default_rng(0)
    rows = (frames.tables.run_id == fallen.id) & (frames.tables.name == "probe")
    levels = [0.3, 0.85, 0.4, 0.3, 0.2, 0.13, 0.13]
    frames.tables.loc[rows, "data"] = pd.Series(
        [make_probe(rng, level) for level in levels], index=frames.tables.index[rows]
    )
    table = collapse.build(frames, experiment)[1]
    line, cells = table.records[0], [cell.text for cell in table.rows[0].cells]
    assert line["regime"] == "template collapse" and line["retrieval_high_step"] == 10
    assert cells[1] == "template collapse" and cells[3] == f"{line['retrieval_high']:.2f}@10"
    assert cells[2] == f"{line['retrieval_start']:.2f}" and cells[4] == f"{line['retrieval_end']:.2f}"
    assert any("Chance: a retrieval of 0.125" in note.text for note in table.notes)


def test_the_figure_draws_the_probes_that_the_regimes_are_judged_on(make_experiment, make_frames):
    experiment = quickstart(make_experiment)
    frames = make_frames(experiment)
    before = collapse.build(frames, experiment)[0]
    assert "the end may differ from the table" in before.caption
    measured = [
        (run_id, "probe/retrieval_acc", step, np.mean(data["hits"]) / data["block_size"])
        for run_id, name, step, data in frames.tables.itertuples(index=False)
        if name == "probe"
    ]
    frames.metrics = pd.concat([frames.metrics, pd.DataFrame(measured, columns=frames.metrics.columns)])
    figure, regimes, _ = collapse.build(frames, experiment)
    assert "Points: fresh reasonings" in figure.caption
    retrieval = figure.draw().axes[0]
    marked = [line for line in retrieval.lines if line.get_marker() != "None" and line.get_linestyle() == "None"]
    ends = sorted(line.get_ydata()[-1] for line in marked)
    assert ends == pytest.approx(sorted(record["retrieval_end"] for record in regimes.records))
    assert {point["measured"] for point in figure.points if point["quantity"] == "retrieval"} == {"probe", "training"}


def test_the_entropy_panel_is_scaled_to_what_was_measured(make_experiment, make_frames):
    experiment = quickstart(make_experiment)
    entropy = collapse.build(make_frames(experiment), experiment)[0].draw().axes[1]
    largest = max(line.get_ydata().max() for line in entropy.lines if len(line.get_ydata()) > 2)
    assert entropy.get_ylim()[1] == pytest.approx(1.25 * largest)
    assert any("of the start: low entropy" in text.get_text() for text in entropy.texts)


def test_the_entropy_of_a_few_leftover_reasonings_is_not_drawn(make_experiment, make_frames):
    experiment = quickstart(make_experiment, seeds=range(3))
    frames = make_frames(experiment, steps=120)
    probed = frames.tables[(frames.tables.name == "probe") & (frames.tables.run_id == experiment.runs[0].id)]
    entropies = [
        {"run_id": run.id, "key": "probe/h_z_given_x", "step": step, "value": 1.4}
        for run in experiment.runs
        for step in probed.step
    ]
    frames.metrics = pd.concat([frames.metrics, pd.DataFrame(entropies)]).sort_values(["run_id", "key", "step"])
    last = probed.iloc[-1]
    last["data"]["h_z_given_x"] = [None] * 40 + [9.0] * 24
    figure = collapse.build(frames, experiment)[0]
    points = [p for p in figure.points if p["quantity"] == "entropy" and p["measured"] == "probe"]
    steps = {run.id: {p["step"] for p in points if p.get("run_id") == run.id} for run in experiment.runs}
    assert last["step"] not in steps[experiment.runs[0].id]
    assert all(last["step"] in steps[run.id] for run in experiment.runs[1:])
