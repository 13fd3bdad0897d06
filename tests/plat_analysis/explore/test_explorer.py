"""The data of the explorer: every kind of run has a sensible place, and no text of a user can break the page."""

from __future__ import annotations

import base64
import json
import re
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from plat_analysis.data.results import Results
from plat_analysis.explore import curves as curves_of_page
from plat_analysis.explore.curves import Metrics, metric_columns
from plat_analysis.explore.page_file import explorer, explorer_files, in_script
from plat_analysis.explore.runs import Places, axes_of

pytest.importorskip("bokeh", reason="the extra `explore` is not installed")


def data_of(page: str) -> dict:
    (text,) = re.findall(r'<script type="application/json" id="data">(.*?)</script>', page, re.S)
    return json.loads(text)


def values_of(column: dict, run: int) -> list[float]:
    return np.frombuffer(base64.b64decode(column["curve"][run][1]), "<f8" if column["wide"] else "<f4").tolist()


@pytest.fixture
def results(make_experiment, make_frames):
    def make(*, metrics=None, holes=None, **options):
        experiment = make_experiment(**{"rows": ["PPO"], "tasks": ["sokoban"], "seeds": range(3), **options})
        frames = make_frames(experiment, steps=20, holes=holes)
        if metrics is not None:
            rows = [(run.id, *row) for run in experiment.runs for row in metrics(run)]
            frames = replace(frames, metrics=pd.DataFrame(rows, columns=["run_id", "key", "step", "value"]))
        made = Results(frames, experiment)
        return made

    return make


def test_the_same_report_gives_the_same_page(results):
    assert explorer(results(), Places()) == explorer(results(), Places())


def test_bokehs_own_ids_do_not_show(results, monkeypatch):
    page = explorer(results(), Places())
    monkeypatch.setenv("BOKEH_SIMPLE_IDS", "no")
    assert explorer(results(), Places()) == page


def test_every_run_has_its_settings_its_outcome_its_last_value_and_its_links(results):
    made = results()
    missing = made.runs[0].id
    made = results(holes={missing: "failed:oom"})
    ids = [run.id for run in made.runs]
    page = explorer(made, Places({ids[1]: "../../runs/ab/x/"}, "http://host:5000/"))
    data = data_of(page)
    assert data["ids"] == ids and data["missing"] == [1, 0, 0, 0, 0, 0]
    assert data["folders"] == ["", "../../runs/ab/x/", "", "", "", ""]
    assert data["pages"][1] == f"http://host:5000/#/runs/m{ids[1]}"
    axes = {axis["label"]: axis for axis in data["axes"]}
    assert list(axes) == ["filter", "seed", "outcome"], "axes of one value are listed apart"
    assert axes["seed"]["replicate"] and axes["seed"]["codes"] == [0, 1, 2] * 2
    assert axes["outcome"]["values"] == ["failed:oom", "finished"]
    steps, values = made.curve(ids[1], "success")
    column = data["metrics"][0]
    assert column["label"] == "Validation success" and column["last"][1] == pytest.approx(values[-1], rel=1e-5)
    assert np.cumsum(data["steps"][column["curve"][1][0]]).tolist() == steps.tolist()
    assert values_of(column, 1) == pytest.approx(values.tolist(), rel=1e-6)


def test_a_page_asks_no_network_and_its_links_are_those_of_runs(results):
    page = explorer(results(), Places())
    head, _, script = page.partition('<script type="application/json"')
    assert "default-src 'none'" in head and "script-src 'unsafe-inline'" in head
    assert not re.findall(r"""(?:src|href)=["'](?!#|report\.html)""", head)
    assert "<script src" not in script and "<link" not in script


def test_values_that_are_no_numbers_are_named_and_never_written_as_json(results):
    def metrics(run):
        yield from (("val/success", step, 0.1 * step) for step in range(3))
        yield from (("loss", step, value) for step, value in enumerate([1.0, np.inf, np.nan]))

    column = data_of(explorer(results(metrics=metrics), Places()))["metrics"][1]
    assert column["label"] == "loss" and column["diverged"] == [1] * 6 and column["last"] == [None] * 6
    with pytest.raises(ValueError):
        in_script(float("nan"))


@pytest.mark.parametrize(
    "options",
    [
        {"seeds": [0], "filters": ["none"]},
        {"seeds": [0], "filters": ["none"], "metrics": lambda run: [("val/success", 1, 0.5)]},
        {"metrics": lambda run: []},
        {"metrics": lambda run: [("val/success", 0, 1e300), ("val/success", 1, -1e300)]},
        {"metrics": lambda run: [("val/success", 0, float("inf"))]},
        {"metrics": lambda run: [("val/success", 2**60, 0.1)]},
    ],
    ids=["one run", "one step", "no metric", "huge", "infinite", "late"],
)
def test_a_poor_report_has_a_page(results, options):
    made = results(**options)
    assert len(data_of(explorer(made, Places()))["ids"]) == len(made.runs)


def test_runs_without_results_have_a_page(make_experiment):
    experiment = make_experiment(rows=["PPO"], tasks=["sokoban"], seeds=range(3))
    page = explorer(Results.planned(experiment), Places())
    assert data_of(page)["metrics"] == [] and "0 of 6 runs with a result" in page


def test_thirty_axes_have_a_page(results, make_experiment, make_frames):
    experiment = make_experiment(rows=["PPO"], tasks=["sokoban"], seeds=range(12))
    names = [f"args.option_{number}" for number in range(30)]
    runs = [replace(run, axes={**run.axes, **{name: (at * 7 + n) % 5 for n, name in enumerate(names)}})
            for at, run in enumerate(experiment.runs)]  # fmt: skip
    axes = {**experiment.axes, **{name: list(range(5)) for name in names}}
    experiment = replace(experiment, runs=runs, axes=axes, cells=[(run.axes, run.id) for run in runs])
    data = data_of(explorer(Results(make_frames(experiment, steps=20), experiment), Places()))
    assert len(data["axes"]) == 33


@given(st.text(min_size=1) | st.just("</script><script>alert(1)</script>") | st.just("<!--") | st.just("$$x$$"))
def test_no_text_ends_a_script(text):
    written = in_script({text: [text]})
    assert "<" not in written and "&" not in written and json.loads(written) == {text: [text]}


def test_texts_of_users_stay_texts(results, make_experiment, make_frames):
    hostile = "</script><img src=x onerror=alert(1)>\x07\u202e\U0001f600\"'"
    experiment = make_experiment(rows=[hostile, "b"], tasks=["sokoban"], seeds=range(2), title=hostile)
    frames = make_frames(experiment, steps=20)
    frames.metrics.loc[frames.metrics["key"] == "actor/entropy", "key"] = hostile
    page = explorer(Results(frames, experiment), Places())
    assert "<img" not in page.replace("&lt;img", "") and "\x07" not in page and "\u202e" not in page
    assert any("onerror" in metric["label"] for metric in data_of(page)["metrics"])


def test_numbers_are_ordered_by_size_and_a_missing_value_is_last(make_experiment, make_frames):
    experiment = make_experiment(rows=["PPO"], tasks=["sokoban"], filters=["none"], seeds=range(4))
    rates = [1e-3, 1e-5, None, 1e-4]
    runs = [replace(run, axes={"train.lr": rate, "seed": at})
            for at, (run, rate) in enumerate(zip(experiment.runs, rates, strict=True))]  # fmt: skip
    experiment = replace(experiment, runs=runs, axes={"train.lr": rates[:2], "seed": list(range(4))})
    rate, seed = axes_of(Results(make_frames(experiment, steps=20), experiment))
    assert rate.values == ["1e-05", "0.0001", "0.001", "not set"] and rate.codes == [2, 0, 3, 1] and rate.is_number
    assert rate.label == "learning rate" and seed.is_replicate


def test_curves_are_thinned_to_the_same_steps_and_keep_their_last_value(results, monkeypatch):
    monkeypatch.setattr(curves_of_page, "MOST_OF_A_CURVE", 20)

    def metrics(run):
        return [("val/success", step, step / 100) for step in range(100 if run.axes["seed"] else 50)]

    made = results(metrics=metrics)
    steps, (column,), most = metric_columns(made, Metrics.of(made))
    assert most == 20
    short, long = (np.cumsum(steps[column["curve"][run][0]]).tolist() for run in (0, 1))
    assert len(long) <= 20 and long[-1] == 99 and short[-1] == 49 and set(short[:-1]) <= set(long)
    assert values_of(column, 1)[-1] == pytest.approx(0.99)


def test_five_hundred_runs_of_ten_metrics_fit(results, monkeypatch):
    def metrics(run):
        rng = np.random.default_rng(int(run.id, 16))
        steps = np.cumsum(rng.integers(1, 50, 120))
        return [(key, int(step), rng.random()) for key in ("val/success", *"abcdefghi") for step in steps]

    page = explorer(results(metrics=metrics, seeds=range(250)), Places())
    assert len(page.encode()) <= 4_000_000


def test_without_bokeh_there_is_no_page(results, monkeypatch):
    monkeypatch.setattr("plat_analysis.explore.page_file.is_installed", lambda name: name != "bokeh")
    assert explorer_files(results(), Places()) == {}
    monkeypatch.undo()
    assert list(explorer_files(results(), Places())) == ["explore.html"]
