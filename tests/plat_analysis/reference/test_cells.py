"""A table beside its reference: who is compared with whom, how many cells lie outside, and what is refused."""

from __future__ import annotations

import dataclasses
import json

import numpy as np
import pytest
import yaml

from plat.spec.identity.run_identity import SCHEME
from plat.store.bundle.bundle_frames import BundleResults
from plat_analysis.contrasts.comparison import Comparison
from plat_analysis.data.results import Results
from plat_analysis.reference import reference_runs as reference_runs
from plat_analysis.reference.reference_cells import Count, ReferenceCells, more_than_chance
from plat_analysis.reference.reference_runs import Reference
from plat_analysis.report import render
from plat_analysis.statistics.replicates import prediction_interval
from plat_analysis.tables import peak_success
from plat_ragen2.regimes import collapse

COMPARED = Comparison(rows="variant")
ROWS, TASKS = ["PPO", "GRPO"], ["sokoban", "countdown"]


@pytest.fixture
def make(make_experiment):
    """make(seeds, **fields) -> an experiment whose runs know what their ids are made of."""

    def made(seeds, rows=ROWS, tasks=TASKS, builds=None, **fields):
        experiment = make_experiment(rows=rows, tasks=tasks, seeds=seeds, builds=builds, paper=None, source=None)
        runs = []
        for run in experiment.runs:
            config = run.config | {"row": run.axes["variant"]}
            identity = {"trainer": "embedded", "plugins": [], "left_out": []}
            fingerprint = {"base": f"base {config['model']['base']['seed']}"}
            runs.append(
                dataclasses.replace(run, config=config, identity=identity, version="3.0", fingerprint=fingerprint)
            )
        return dataclasses.replace(experiment, runs=runs, reference="../results", **fields)

    return made


def bundle_of(experiment, frames, **changes):
    """The bundle into which these runs would be exported; `changes` of each meta.json."""
    metas = {
        run.id: {
            "name": run.name,
            "trainer": "embedded",
            "trainer_version": run.version,
            "identity_scheme": SCHEME,
            "identity": run.identity,
            "fingerprint": run.fingerprint,
            **changes,
        }
        for run in experiment.runs
    }
    configs = {run.id: yaml.safe_dump(json.loads(json.dumps(run.config))) for run in experiment.runs}
    return BundleResults(metas, configs, frames, {}, ())


@pytest.fixture
def beside(make_frames):
    """beside(own, earlier, **changes of the earlier metas) -> the cells of `own` beside those of `earlier`."""

    def cells(own, earlier, own_frames=None, **changes):
        reference = Reference(own, bundle_of(earlier, make_frames(earlier), **changes))
        return ReferenceCells(COMPARED.grid(Results.of(own_frames or make_frames(own), own)), reference)

    return cells


def peaks(frames, runs):
    metrics = frames.metrics[frames.metrics["key"] == "val/success"]
    return [100 * metrics[metrics["run_id"] == run.id]["value"].max() for run in runs]


def test_a_run_is_compared_with_the_others_and_not_with_itself(make, make_frames, beside):
    own, earlier = make([0]), make(range(8))
    frames = make_frames(earlier)
    others = [
        run
        for run in earlier.runs
        if (run.axes["variant"], run.axes["task"], run.axes["filter"]) == ("GRPO", "sokoban", "none")
        and run.axes["seed"] != 0
    ]
    expected = beside(own, earlier).expected("GRPO", "sokoban", "peak")
    mean, low, high = prediction_interval({0: peaks(frames, others)}, {0: 1})
    assert expected.runs == 7
    assert (expected.mean, expected.low, expected.high) == pytest.approx((mean, max(low, 0), min(high, 100)))


def test_changes_and_averages_are_paired_by_replicate(make, make_frames, beside):
    own, earlier = make([90]), make(range(6))
    cells = beside(own, earlier)
    frames = make_frames(earlier)
    by = {
        (run.axes["task"], run.axes["filter"], run.axes["seed"]): run
        for run in earlier.runs
        if run.axes["variant"] == "PPO"
    }
    changes = [
        np.mean([np.diff(peaks(frames, [by[task, "none", seed], by[task, "top_p", seed]]))[0] for task in TASKS])
        for seed in range(6)
    ]
    expected = cells.expected("PPO", "average", "delta")
    assert expected.runs == 6 and expected.mean == pytest.approx(np.mean(changes))
    assert expected.high - expected.low > 0


def test_the_runs_of_the_own_build_say_where_and_those_of_all_how_far(make, make_frames, beside):
    own, earlier = make([0], builds=[0]), make(range(4), builds=[0, 1])
    frames = make_frames(earlier)
    first, second = (
        [
            run
            for run in earlier.runs
            if (run.axes["variant"], run.axes["task"], run.axes["filter"]) == ("PPO", "sokoban", "none")
            and run.axes["model.base.seed"] == build
            and (build, run.axes["seed"]) != (0, 0)
        ]
        for build in (0, 1)
    )
    expected = beside(own, earlier).expected("PPO", "sokoban", "peak")
    assert expected.runs == 7 and expected.mean == pytest.approx(np.mean(peaks(frames, first)))
    wanted = prediction_interval({0: peaks(frames, first), 1: peaks(frames, second)}, {0: 1})
    assert (expected.low, expected.high) == pytest.approx((max(wanted[1], 0), min(wanted[2], 100)))


def test_another_build_than_the_two_of_the_reference_has_no_range(make, beside):
    cells = beside(make([0], builds=[2]), make(range(5), builds=[0, 1]))
    expected = cells.expected("PPO", "sokoban", "peak")
    assert expected.runs == 10 and expected.mean is not None and expected.low is None


def test_too_few_runs_give_a_mean_and_no_range(make, beside):
    cells = beside(make([0]), make(range(5)))
    expected = cells.expected("PPO", "sokoban", "peak")
    assert expected.runs == 4 and expected.mean is not None and expected.low is None and not expected.outside
    assert cells.without_range() == 4 and [count.cells for count in cells.counts()] == [0, 0]


def test_runs_of_the_reference_itself_have_nothing_beside_them(make, beside):
    assert beside(make(range(5)), make(range(5))).empty


def test_a_shift_of_every_run_is_more_than_chance_and_the_same_again_is_not(make, make_frames, beside):
    own, earlier = make([50]), make(range(8))
    same = beside(own, earlier)
    shifted = make_frames(own)
    shifted.metrics.loc[shifted.metrics["key"] == "val/success", "value"] *= 0.2
    assert not more_than_chance(same.counts())
    counts = beside(own, earlier, own_frames=shifted).counts()
    assert [(count.quantity, count.cells) for count in counts] == [("peak", 4), ("delta", 4)]
    assert counts[0].outside == 4 and more_than_chance(counts)


def test_one_of_twenty_outside_is_what_chance_gives():
    assert Count("peak", 2, 36).expected == pytest.approx(1.8)
    assert not more_than_chance([Count("peak", 3, 36), Count("delta", 2, 36)])
    assert more_than_chance([Count("peak", 7, 36), Count("delta", 0, 36)])


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"trainer_version": "2.0"}, "it has trainer embedded 2.0, not embedded 3.0 (8 of 8 runs)"),
        ({"identity_scheme": 1}, f"it has identity scheme 1, not {SCHEME} (8 of 8 runs)"),
        ({"fingerprint": {"base": "other"}}, 'different content of `base model` ("other", not "base 0") (8 of 8 runs)'),
    ],
)
def test_a_reference_of_another_origin_is_refused_whole(make, make_frames, beside, changes, said):
    own, earlier = make([0]), make(range(8))
    problem = Reference(own, bundle_of(earlier, make_frames(earlier), **changes)).problem
    assert said in problem and beside(own, earlier, **changes).empty


def test_runs_of_two_kinds_are_never_mixed(make, make_frames):
    own, earlier = make([0]), make(range(8))
    bundle = bundle_of(earlier, make_frames(earlier))
    stranger = next(run.id for run in earlier.runs if run.axes["variant"] == "PPO" and run.axes["seed"] == 3)
    bundle.metas[stranger]["trainer_version"] = "2.9"
    reference = Reference(own, bundle)
    assert reference.problem == "it has trainer embedded 2.9, not embedded 3.0 (1 of 8 runs)"
    assert sorted(len(reference.beside(run)) for run in own.runs) == [0, *[8] * 7]


def test_other_settings_are_named_by_the_nearest_run(make, make_frames):
    own, earlier = make([0], tasks=["sokoban"]), make(range(5), tasks=["countdown"])
    problem = Reference(own, bundle_of(earlier, make_frames(earlier))).problem
    assert problem == (
        "it has no run of these settings (the nearest has task.name countdown, not sokoban) (4 of 4 runs)"
    )


def test_the_table_shows_the_range_and_marks_what_lies_outside(make, make_frames, tmp_path, monkeypatch):
    own, earlier = make([50], path=tmp_path / "experiments" / "table4.yaml"), make(range(8))
    (tmp_path / "results").mkdir()
    (tmp_path / "experiments").mkdir()
    monkeypatch.setattr(reference_runs, "read_results", lambda *_, **__: bundle_of(earlier, make_frames(earlier)))
    frames = make_frames(own)
    frames.metrics.loc[(frames.metrics["run_id"] == own.runs[0].id), "value"] += 0.4
    table = peak_success.build(frames, own)[0]
    kinds = [line.cells[1].text for line in table.rows[:6]]
    assert kinds == ["peak", "95 %", "reference", "range", "held-out", "final"]
    assert table.rows[3].cells[2].mark == "x" and table.rows[3].cells[2].text.startswith("[")
    note = next(note for note in table.notes if note.mark == "x")
    assert note.text.startswith("outside the reference range: 1 of 4 peaks (expected by chance: 0.2;")
    assert table.values["peak_success/reference/peaks_outside"] == 1
    record = next(line for line in table.records if (line["row"], line["quantity"]) == ("PPO", "peak"))
    assert record["reference_low"] < record["reference"] < record["reference_high"] and record["reference_runs"] == 8
    assert "<sup>x</sup>" in render.markdown(table) and "$^{x}$" in render.latex(table)


def test_too_few_runs_are_said_in_the_cell_and_explained_once(make, make_frames, tmp_path, monkeypatch):
    """The reference has five runs of each cell, one of them the table's own: four others, where a range takes five."""
    own, earlier = (
        make(seeds, rows=["GRPO"], tasks=["sokoban"], path=tmp_path / "experiments" / "quickstart.yaml")
        for seeds in ([0], range(5))
    )
    (tmp_path / "results").mkdir()
    (tmp_path / "experiments").mkdir()
    monkeypatch.setattr(reference_runs, "read_results", lambda *_, **__: bundle_of(earlier, make_frames(earlier)))
    ends = next(a for a in collapse.build(make_frames(own), own) if a.name == "collapse_differences")
    for table in (ends, peak_success.build(make_frames(own), own)[0]):
        ranges = [row for row in table.rows if "range" in (row.cells[0].text, row.cells[1].text)]
        assert ranges and all("too few (4 of 5)" in [cell.text for cell in row.cells] for row in ranges)
        assert [note.text[:18] for note in table.notes if "too few" in note.text] == ["“too few (4 of 5)”"]


def test_a_missing_folder_is_said_once(make, make_frames, tmp_path):
    own = make([0], path=tmp_path / "table4.yaml")
    table = peak_success.build(make_frames(own), own)[0]
    said = [note.text for note in table.notes if "../results" in note.text]
    assert said == ["No comparison with reference results: there is no ../results."]
    assert "reference" not in [line.cells[1].text for line in table.rows]


def test_the_table_of_ends_has_its_reference_too(make, make_frames, tmp_path, monkeypatch):
    own, earlier = (
        make(seeds, rows=["GRPO"], tasks=["sokoban"], path=tmp_path / "experiments" / "quickstart.yaml")
        for seeds in ([2], range(8))
    )
    (tmp_path / "results").mkdir()
    (tmp_path / "experiments").mkdir()
    monkeypatch.setattr(reference_runs, "read_results", lambda *_, **__: bundle_of(earlier, make_frames(earlier)))
    table = next(a for a in collapse.build(make_frames(own), own) if a.name == "collapse_differences")
    assert [row.cells[0].text for row in table.rows[4:8]] == ["H(Z|X), nats", "95 %", "reference", "range"]
    untreated = [run for run in earlier.runs if run.axes["filter"] == "none" and run.axes["seed"] != 2]
    metrics = make_frames(earlier).metrics
    changes = []
    for run in untreated:
        values = metrics[(metrics["run_id"] == run.id) & (metrics["key"] == "mi/first_turn/h_z_given_x")]["value"]
        changes.append(values.to_numpy()[-3:].mean() - values.to_numpy()[0])
    mean, low, high = prediction_interval({0: changes}, {0: 1})
    assert table.rows[6].cells[1].text == f"{mean:+.2f}"
    assert table.rows[7].cells[1].text == f"[{low:+.2f}, {high:+.2f}]"
    assert "“range” is the 95 % prediction interval" in table.caption


def test_runs_that_were_computed_elsewhere_are_compared_with_themselves(make, make_frames, beside):
    own, earlier = make([0]), make(range(5))
    frames = make_frames(earlier)
    same = beside(own, earlier, own_frames=frames).same_runs().values()
    assert same["same_runs"] == same["same_run_equal"] == 8 and same["same_run_difference"] == 0
    assert same["same_run_correlation"] == pytest.approx(1) and same["other_seed_correlation"] < 0.9
    moved = frames.metrics["key"] == "val/success"
    frames.metrics.loc[moved, "value"] += 1 / 256
    near = beside(own, earlier, own_frames=frames).same_runs().values()
    assert near["same_run_difference"] == pytest.approx(100 / 256) and near["same_run_equal"] == 0
    assert near["same_run_difference"] < near["other_seed_difference"]
    assert beside(make([9]), earlier).same_runs().values() == {}, "a fresh seed is not in the reference"
