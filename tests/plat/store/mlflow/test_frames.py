"""The reader: frames from the store alone, and reports logged into the file's own run."""

from __future__ import annotations

import math
import os
import shutil

import numpy as np
import pandas as pd
import pytest

from plat.errors import StoreError
from plat.store.home import Home
from plat.store.mlflow.frames import Store
from plat.store.mlflow.importer import import_runs
from plat.store.mlflow.mlflow_client import mlflow_client
from plat.store.mlflow.report_record import ReportRecord


@pytest.fixture
def filled(home, recipe, experiment):
    """A home with six imported runs of table4 (one of them also of other), and both files."""
    recipes = [recipe(n, kills=[(6, 4)]) for n in range(4)]
    recipes += [recipe(4, files=["other", "table4"]), recipe(5, outcome=None, steps=4)]
    for item in recipes:
        item.write(home)
    files = experiment("table4", recipes), experiment("other", recipes[4:5])
    import_runs(home, home.store_uri(), files)
    return home, recipes, files


def same(left, right):
    for name in ("runs", "metrics", "tables"):
        pd.testing.assert_frame_equal(getattr(left, name), getattr(right, name), check_exact=True)


def test_frames_of_an_experiment(filled):
    home, recipes, (table4, other) = filled
    frames = Store(home.store_uri(), home).load(table4)
    runs = frames.runs
    assert list(runs["run_id"]) == [item.id for item in recipes]
    assert list(runs["outcome"]) == ["finished"] * 5 + [None]
    assert list(runs["attempt"]) == [2, 2, 2, 2, 1, 1]
    assert list(runs["axis.seed"]) == [0, 1, 2, 3, 4, 5] and runs["axis.seed"].dtype == "int64"
    assert set(runs["axis.filter"]) == {"top_p"} and set(runs["param.train.lr"]) == {"0.0003"}
    assert list(runs["tag.plat.in.other"]) == [None] * 4 + ["1", None]

    metrics = frames.metrics
    assert list(metrics.dtypes.astype(str)) == ["object", "object", "int64", "float64"]
    assert len(metrics) == 5 * 4 * 9 + 4 * 5
    assert metrics.equals(metrics.sort_values(["run_id", "key", "step"], kind="stable", ignore_index=True))
    chosen = metrics[(metrics.run_id == recipes[2].id) & (metrics.key == "mi/first_turn/mi_zscore")]
    expected = [recipes[2].metrics(step, "mi/first_turn/mi_zscore") for step in range(9)]
    assert math.inf in expected and -math.inf in expected
    np.testing.assert_array_equal(chosen["value"], expected)

    tables = frames.tables
    assert list(tables.step[tables.run_id == recipes[0].id]) == [0, 4, 8]
    assert tables.data[1] == [[4, 0.5], [1, None]]

    assert list(Store(home.store_uri(), home).load(other).runs["run_id"]) == [recipes[4].id]


def test_only_what_is_asked_for_is_read(filled):
    home, _, (table4, _) = filled
    store = Store(home.store_uri(), home)
    whole, part = store.load(table4), store.load(table4, params=False)
    others = [column for column in whole.runs.columns if not column.startswith("param.")]
    assert len(others) < len(whole.runs.columns) and len(part.metrics) > 0
    pd.testing.assert_frame_equal(part.runs, whole.runs[others], check_exact=True)
    pd.testing.assert_frame_equal(part.metrics, whole.metrics, check_exact=True)
    pd.testing.assert_frame_equal(part.tables, whole.tables, check_exact=True)


def test_by_name_and_by_file(filled, experiment):
    """A name gives all that any version of the file asked for; a parsed file what it stands for now, with its axes."""
    home, recipes, _ = filled
    store = Store(home.store_uri(), home)
    assert len(store.load("table4").runs) == 6
    now = experiment("table4", recipes[:2])
    now.runs[0].axes["variant"] = "PPO"
    runs = store.load(now).runs
    assert list(runs["run_id"]) == [item.id for item in recipes[:2]]
    assert list(runs["axis.variant"]) == ["PPO", None]


def test_an_experiment_without_runs_has_empty_frames(filled):
    home = filled[0]
    frames = Store(home.store_uri(), home).load("unheard-of")
    assert [len(frame) for frame in (frames.runs, frames.metrics, frames.tables)] == [0, 0, 0]
    assert list(frames.runs.columns) == ["run_id", "name", "mlflow_id", "outcome", "attempt"]
    assert list(frames.metrics.columns) == ["run_id", "key", "step", "value"]
    assert frames.metrics["step"].dtype == "int64" and frames.metrics["value"].dtype == "float64"


def test_without_run_directories_and_after_a_move(filled, tmp_path, monkeypatch):
    """Only the store is needed, also when it was carried elsewhere with its artifacts, even to a read-only place."""
    home, _, (table4, _) = filled
    before = Store(home.store_uri(), home).load(table4)
    shutil.rmtree(home.runs)
    moved = tmp_path / "carried"
    moved.mkdir()
    for name in ("mlflow.db", "mlartifacts"):
        shutil.move(home.root / name, moved / name)
    same(before, Store(f"sqlite:///{moved}/mlflow.db", home).load(table4))
    monkeypatch.setattr(os, "access", lambda *_: False)
    same(before, Store(f"sqlite:///{moved}/mlflow.db", home).load(table4))


def test_deleted_runs_are_left_out(filled):
    home, recipes, (table4, _) = filled
    store = Store(home.store_uri(), home)
    gone = store.load(table4).runs["mlflow_id"][0]
    mlflow_client(home.store_uri()).delete_run(gone)
    assert list(store.load(table4).runs["run_id"]) == [item.id for item in recipes[1:]]


def test_no_store(tmp_path):
    home = Home(tmp_path / "nowhere")
    with pytest.raises(StoreError, match="no store yet"):
        Store(home.store_uri(), home).load("table4")
    assert not home.root.exists()


# -- reports ----------------------------------------------------------------------------------------------------------


def test_a_report_replaces_the_earlier_one(filled, tmp_path):
    home, _, (table4, _) = filled
    store = Store(home.store_uri(), home)
    page, figure = tmp_path / "page.html", tmp_path / "figure.png"
    page.write_text("<p>first</p>")
    figure.write_bytes(b"png")
    first = store.log_report(
        table4,
        {"page.html": page, "figures/deltas.png": figure},
        ReportRecord({("delta/ppo", 0): 1.0, ("gone", 0): 2.0}),
    )
    page.write_text("<p>second</p>")
    run = store.log_report(
        table4, {"page.html": page}, ReportRecord({("delta/ppo", 0): 0.5, ("delta/nan", 0): math.nan})
    )
    assert run == first
    client = mlflow_client(home.store_uri())
    actual = client.get_run(run)
    assert actual.info.run_name == "table4" and actual.data.metrics["delta/ppo"] == 0.5
    assert math.isnan(actual.data.metrics["delta/nan"])
    assert math.isnan(actual.data.metrics["gone"])  # MLflow's client cannot delete a metric
    assert {entry.path for entry in client.list_artifacts(run, "report") if not entry.is_dir} == {"report/page.html"}
    assert not client.list_artifacts(run, "report/figures")
    with open(client.download_artifacts(run, "report/page.html")) as file:
        assert file.read() == "<p>second</p>"
    assert import_runs(home, home.store_uri(), filled[2]).imported == []


def test_values_along_steps_are_the_steps_of_one_metric_and_are_replaced_too(filled):
    home, _, (table4, _) = filled
    store, client = Store(home.store_uri(), home), mlflow_client(home.store_uri())

    def newest(key):
        history = sorted(client.get_metric_history(run, key), key=lambda metric: metric.timestamp)
        return {metric.step: metric.value for metric in history}, len(history)

    run = store.log_report(table4, {}, ReportRecord({("curve", 4): 0.25, ("curve", 8): 0.5, ("gone", 8): 2.0}))
    assert newest("curve") == ({4: 0.25, 8: 0.5}, 2)
    assert client.search_runs([client.get_run(run).info.experiment_id], "metrics.`curve` > 0.4")[0].info.run_id == run
    store.log_report(table4, {}, ReportRecord({("curve", 4): 0.75, ("curve", 8): 0.5, ("curve", 12): 1.0}))
    assert newest("curve") == ({4: 0.75, 8: 0.5, 12: 1.0}, 4)  # the value at step 8 is not logged again
    assert all(math.isnan(value) for value in newest("gone")[0].values())
    store.log_report(table4, {}, ReportRecord({("curve", 0): 3.0}))
    curve, _ = newest("curve")
    assert curve.pop(0) == 3.0 and all(math.isnan(value) for value in curve.values())


def test_a_report_for_a_deleted_file_run(filled):
    home, _, (table4, _) = filled
    store = Store(home.store_uri(), home)
    run = store.log_report(table4, {})
    mlflow_client(home.store_uri()).delete_run(run)
    with pytest.raises(StoreError, match="was deleted"):
        store.log_report(table4, {})


def test_the_same_report_is_not_logged_again(filled, tmp_path, monkeypatch):
    home, _, (table4, _) = filled
    store, page = Store(home.store_uri(), home), tmp_path / "page.html"
    page.write_text("page")
    run = store.log_report(table4, {"page.html": page}, ReportRecord({("delta", 0): 1.0}))
    with monkeypatch.context() as patched:
        patched.setattr("plat.store.mlflow.frames.open_writer", None)
        assert store.log_report(table4, {"page.html": page}, ReportRecord({("delta", 0): 1.0})) == run
    mlflow_client(home.store_uri()).set_tag(run, "plat.title", "changed")
    store.log_report(table4, {"page.html": page}, ReportRecord({("delta", 0): 1.0}))
    assert mlflow_client(home.store_uri()).get_run(run).data.tags["plat.title"] == "The title of table4"
