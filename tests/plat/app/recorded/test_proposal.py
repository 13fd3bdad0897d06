"""What an imported experiment file proposes: plat takes it as it is, and it asks about the values that are there."""

from __future__ import annotations

import itertools
import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from plat.app.checking import check_report
from plat.app.recorded.foreign_run import ForeignRun
from plat.app.recorded.metric_choice import Choice
from plat.app.recorded.proposal import HEAD, commented, proposals
from plat.app.recorded.selection import select
from plat.app.recorded.sources import write
from plat.spec.expansion.experiment import load_experiment


def runs_of(axes: dict[str, list[object]], seeds: int, metrics: dict[str, float]) -> list[ForeignRun]:
    runs = []
    for number, values in enumerate(itertools.product(*axes.values(), range(seeds))):
        history = {step: {name: value + number + step for name, value in metrics.items()} for step in range(2)}
        runs.append(ForeignRun(f"r{number}", dict(zip([*axes, "seed"], values, strict=True)), history, "here"))
    return runs


def uncommented(text: str) -> str:
    head, _, below = text.partition(f"# {HEAD}\n")
    return head + "".join(line.removeprefix("# ") for line in below.splitlines(keepends=True))


def test_two_values_are_compared_on_the_first_outcome_of_an_evaluation():
    runs = runs_of({"width": [1, 2, 3], "filter": ["on", "off"]}, 5, {"lr": 1.0, "loss": 2.0, "val/accuracy": 3.0})
    lines = proposals(select(runs, Choice()))[0].splitlines()
    assert lines[1].startswith("  - {builder: measures_table, rows: [width], conditions: filter, baseline: ")
    assert [line.strip() for line in lines[4:]] == [
        "- id: filter-off-ends-higher",
        'says: "Runs with filter = off end with more val/accuracy than runs with filter = on."',
        "check: mean_delta_positive",
        "rows: [width]",
        "columns: []",
        "pair: filter",
        'baseline: "on"  # exchange the two where lower is better',
        'treatment: "off"',
        'measure: {metric: "val/accuracy"}',
        "smallest: 3  # the smallest change that matters; here a tenth of its range",
    ]


@pytest.mark.parametrize(
    ("axes", "seeds", "holds", "lacks"),
    [
        ({"method": ["a", "b"], "task": list(range(8))}, 3, "units: tasks", "rows: [task]\n    columns: []"),
        ({"method": ["a", "b"], "task": list(range(7))}, 3, "rows: [task]", "units"),
        ({"method": ["a", "b", "c"]}, 3, "conditions: method", "claims"),
    ],
)
def test_the_shape_follows_the_runs(axes, seeds, holds, lacks):
    text = proposals(select(runs_of(axes, seeds, {"loss": 1.0}), Choice()))[0]
    assert holds in text and lacks not in text


def test_seeds_that_differ_make_no_pairs():
    runs = runs_of({"method": ["a", "b"]}, 6, {"loss": 1.0})
    kept = [run for run in runs if (run.values["method"] == "a") == (run.values["seed"] < 3)]
    text = proposals(select(kept, Choice()))[0]
    assert "units: runs" in text and "metric_table, rows: [], columns: [method]" in text


def test_an_axis_that_follows_from_another_is_not_compared():
    runs = runs_of({"task": list(range(6)), "method": ["a", "b", "c"]}, 3, {"loss": 1.0})
    for run in runs:
        run.values["domain"] = run.values["task"] // 3
    (text,) = proposals(select(runs, Choice()))
    assert "rows: [task], conditions: method" in text


def test_nothing_is_proposed_where_nothing_varies():
    assert proposals(select(runs_of({}, 3, {"loss": 1.0}), Choice())) == []


VALUES = st.lists(st.one_of(st.integers(-9, 9), st.text("ab: #{\"'é=", min_size=1, max_size=4)), min_size=1, max_size=3)
AXES = st.dictionaries(
    st.sampled_from(["lr", "task", "algorithm", "filter", "seeds", "a/b", "args"]), VALUES, max_size=3
)


@settings(max_examples=40, deadline=None)
@given(AXES, st.integers(1, 6), st.sampled_from(["loss", "val/acc: 1", "a b", "{x}"]))
def test_plat_takes_every_proposal_without_its_comments(tmp_path_factory, axes, seeds, metric):
    axes = {name: list({json.dumps(value): value for value in values}.values()) for name, values in axes.items()}
    selection = select(runs_of(axes, seeds, {metric: 1.0}), Choice(axes=tuple(axes)))
    file = tmp_path_factory.mktemp("proposed") / "mine.yaml"
    write(file, "table", selection)
    text = file.read_text()
    load_experiment(file)
    varied = [name for name, values in axes.items() if len(values) > 1]
    assert (HEAD in text) == bool(varied)
    file.write_text(uncommented(text))
    experiment = load_experiment(file)
    check_report(experiment)
    assert bool(experiment.report) == (HEAD in text)


def test_a_line_as_a_comment():
    assert commented("a:\n  b\n") == f"# {HEAD}\n# a:\n#   b\n"
    assert uncommented("x\n" + commented("a:\n  b\n")) == "x\na:\n  b\n"


def test_an_imported_file_has_it(plat, project):
    Path("all.csv").write_text("lr,seed,step,loss\n" + "".join(f"{lr},{s},1,{lr}\n" for lr in (1, 2) for s in (0, 1)))
    assert plat("import", "table", "all.csv", "--axes", "lr", "--out", "lr.yaml", "--no-sweep")[0] == 0
    Path("lr.yaml").write_text(uncommented(Path("lr.yaml").read_text()))
    code, out, err = plat("sweep", "lr.yaml")
    assert code == 0 and "lr-2-ends-higher" in out and "not enough data" in out, err
