"""The reader: frames equal to the client's, from the store alone, and reports logged into the file's own run."""

from __future__ import annotations

import math
import os
import shutil
import sqlite3
from contextlib import closing

import numpy as np
import pandas as pd
import pytest
from store_dump import dump

from plat.errors import StoreError
from plat.store.home import Home
from plat.store.mlflow.backend import restore
from plat.store.mlflow.connect import DIRECT_SCHEMAS, ClientReader
from plat.store.mlflow.frames import Store
from plat.store.mlflow.importer import import_runs
from plat.store.mlflow.mlflow_client import mlflow_client
from plat.store.mlflow.report_record import ReportRecord
from plat.store.mlflow.sqlite_connection import schema_revision
from plat.store.mlflow.sqlite_reader import SqlReader


@pytest.fixture(params=[SqlReader, ClientReader])
def either_reader(request, monkeypatch):
    monkeypatch.setattr("plat.store.mlflow.connect.SqlReader", request.param)


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


def test_only_what_is_asked_for_is_read(filled, either_reader):
    home, _, (table4, _) = filled
    store = Store(home.store_uri(), home)
    whole, part = store.load(table4), store.load(table4, params=False)
    others = [column for column in whole.runs.columns if not column.startswith("param.")]
    assert len(others) < len(whole.runs.columns) and len(part.metrics) > 0
    pd.testing.assert_frame_equal(part.runs, whole.runs[others], check_exact=True)
    pd.testing.assert_frame_equal(part.metrics, whole.metrics, check_exact=True)
    pd.testing.assert_frame_equal(part.tables, whole.tables, check_exact=True)


def test_both_readers_give_equal_frames(filled, monkeypatch):
    home, _, (table4, _) = filled
    direct = Store(home.store_uri(), home).load(table4)
    monkeypatch.setattr("plat.store.mlflow.connect.SqlReader", ClientReader)
    same(direct, Store(home.store_uri(), home).load(table4))


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


def test_steps_that_arrived_out_of_order(home, recipe, experiment):
    """Keys with steps of their own, inserted in any order, come back sorted and with the right values."""
    single = recipe(1, outcome=None)  # without a digest
    single.write(home)
    import_runs(home, home.store_uri())
    client = mlflow_client(home.store_uri())
    store = Store(home.store_uri(), home)
    run = store.load("table4").runs["mlflow_id"][0]
    for step in (12, 100, 9, 11):
        client.log_metric(run, "val/success", step * 1.5, timestamp=1_700_000_000_000, step=step)
    actual = store.load("table4").metrics
    chosen = actual[(actual.key == "val/success") & (actual.step > 8)]
    assert list(chosen.step) == [9, 11, 12, 100] and list(chosen.value) == [13.5, 16.5, 18.0, 150.0]
    same(store.load("table4"), store.load(experiment("table4", [single])))


def test_rows_of_runs_that_lie_among_each_other(home, recipe, monkeypatch):
    """The same keys and steps of two runs, in two orders on disk, with NaN and infinities."""
    for number in (1, 2):
        recipe(number, outcome=None).write(home)  # without a digest
    import_runs(home, home.store_uri())
    client, store = mlflow_client(home.store_uri()), Store(home.store_uri(), home)
    values = [*np.random.default_rng(0).random(36), math.nan, math.inf, -math.inf, 0.0]
    points = [(key, step, value) for step, value in enumerate(values) for key in ("a", "b", "val/success")]
    orders = [np.random.default_rng(seed).permutation(len(points)) for seed in (1, 2)]
    for pair in zip(*orders, strict=True):
        for run, place in zip(store.load("table4").runs["mlflow_id"], pair, strict=True):
            key, step, value = points[place]
            client.log_metric(run, key, value, timestamp=10**12, step=step + 100)
    ours = store.load("table4")
    monkeypatch.setattr("plat.store.mlflow.connect.SqlReader", ClientReader)
    theirs = store.load("table4")
    assert (theirs.metrics.step >= 100).sum() == 2 * len(values) * 3
    same(ours, theirs)


def test_infinities_come_back():
    largest = np.finfo(float).max
    given = np.array([1.0, largest, -largest, np.nan, np.nextafter(largest, 0)])
    np.testing.assert_array_equal(restore(given.copy()), [1.0, np.inf, -np.inf, np.nan, given[4]])


# -- reports ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("through_client", [False, True])
def test_a_report_replaces_the_earlier_one(filled, tmp_path, monkeypatch, through_client):
    home, _, (table4, _) = filled
    if through_client:
        monkeypatch.setattr("plat.store.mlflow.frames.open_backend", lambda home, uri: _client_store(uri, home))
    store = Store(home.store_uri(), home)
    page, figure = tmp_path / "page.html", tmp_path / "figure.png"
    page.write_text("<p>first</p>")
    figure.write_bytes(b"png")
    first = store.log_report(
        table4, {"page.html": page, "figures/deltas.png": figure}, ReportRecord({"delta/ppo": 1.0, "gone": 2.0})
    )
    page.write_text("<p>second</p>")
    run = store.log_report(table4, {"page.html": page}, ReportRecord({"delta/ppo": 0.5, "delta/nan": math.nan}))
    assert run == first
    client = mlflow_client(home.store_uri())
    actual = client.get_run(run)
    assert actual.info.run_name == "table4" and actual.data.metrics["delta/ppo"] == 0.5
    assert math.isnan(actual.data.metrics["delta/nan"])
    gone = actual.data.metrics.get("gone")
    assert gone is None if not through_client else math.isnan(gone)  # MLflow's client cannot delete a metric
    assert {entry.path for entry in client.list_artifacts(run, "report") if not entry.is_dir} == {"report/page.html"}
    assert not client.list_artifacts(run, "report/figures")
    with open(client.download_artifacts(run, "report/page.html")) as file:
        assert file.read() == "<p>second</p>"
    assert import_runs(home, home.store_uri(), filled[2]).imported == []


def _client_store(uri, home):
    from plat.store.mlflow.client_store import ClientStore

    return ClientStore(uri, home)


def test_a_report_for_a_deleted_file_run(filled):
    home, _, (table4, _) = filled
    store = Store(home.store_uri(), home)
    run = store.log_report(table4, {})
    mlflow_client(home.store_uri()).delete_run(run)
    with pytest.raises(StoreError, match="was deleted"):
        store.log_report(table4, {})


def test_reading_waits_for_no_writer(filled):
    """A reader has one snapshot, whatever is written meanwhile (WAL)."""
    home = filled[0]
    reader = SqlReader(home.store_uri())
    before = reader.runs("table4")
    client = mlflow_client(home.store_uri())
    client.log_metric(before[0].mlflow_id, "late", 1.0)
    assert "late" not in reader.series(before[0]).keys
    reader.close()


@pytest.mark.parametrize("line", ["{", "[]", '{"name": "x", "step": "?", "data": 1}', '{"name": "x", "step": 1}'])
def test_a_stored_table_that_cannot_be_read_names_run_and_table(filled, line):
    home, _, (table4, _) = filled
    path = next((home.root / "mlartifacts").rglob("tables.jsonl"))
    path.write_text(path.read_text() + line + "\n")
    with closing(sqlite3.connect(home.database)) as store:  # as an earlier plat stored it
        store.execute("DELETE FROM tags WHERE key LIKE 'plat.digest%'")
        store.commit()
    with pytest.raises(StoreError, match=r"line \d+ of its tables.jsonl .* run run-000") as error:
        Store(home.store_uri(), home).load(table4)
    assert str(path) in error.value.where and "doctor --deep" in error.value.fix


def test_axes_that_are_no_mapping_are_named(filled):
    home, _, _ = filled
    store = Store(home.store_uri(), home)
    mlflow_client(home.store_uri()).set_tag(store.load("table4").runs["mlflow_id"][0], "plat.axes", "[1]")
    with pytest.raises(StoreError, match=r"plat.axes cannot be read"):
        store.load("table4")


def test_a_schema_unknown_to_our_queries_is_left_to_the_client(make_home, recipe, experiment, monkeypatch):
    """Writing and reading through MLflow's own client end in the same content and frames."""
    recipes = [recipe(n, kills=[(6, 4)]) for n in range(2)]
    contents, frames = [], []
    for name in ("direct", "client"):
        home = make_home(name)
        if name == "client":
            monkeypatch.setattr("plat.store.mlflow.connect.DIRECT_SCHEMAS", frozenset())
            monkeypatch.setattr("plat.store.mlflow.connect.SqliteStore", None)
            monkeypatch.setattr("plat.store.mlflow.connect.SqlReader", None)
        for item in recipes:
            item.write(home)
        file = experiment("table4", recipes)
        import_runs(home, home.store_uri(), [file])
        contents.append(dump(home.store_uri()))
        frames.append(Store(home.store_uri(), home).load(file))
    assert contents[0] == contents[1]
    pd.testing.assert_frame_equal(frames[0].metrics, frames[1].metrics, check_exact=True)


def test_our_own_sql_is_tested_with_the_installed_mlflow(empty_store):
    """When this fails, a new MLflow was installed: run the store's tests, then add its revision to DIRECT_SCHEMAS."""
    assert schema_revision(empty_store) in DIRECT_SCHEMAS
