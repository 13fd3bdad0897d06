"""Stores of plat 0.4, whose metrics are in MLflow's tables alone, are converted without a loss."""

from __future__ import annotations

import json
import shutil

import pandas as pd
import pytest

from plat.store.measured import FOLDER
from plat.store.mlflow.conversion import convert, older_runs
from plat.store.mlflow.frames import Store
from plat.store.mlflow.importer import import_runs
from plat.store.mlflow.mlflow_client import mlflow_client
from plat.store.mlflow.stored_runs import stored_runs


@pytest.fixture
def older(home, recipe, experiment):
    """A home with a store as plat 0.4 left it, the file, and its frames when all was new."""
    recipes = [recipe(1, kills=[(6, 4)]), recipe(2, outcome="failed:oom")]
    for item in recipes:
        item.write(home)
    file = experiment("table4", recipes)
    import_runs(home, home.store_uri(), [file])
    frames = Store(home.store_uri(), home).load(file)
    client = mlflow_client(home.store_uri())
    for run in stored_runs(home, home.store_uri()).values():
        rows = frames.tables[frames.tables.run_id == run.id]
        lines = [
            json.dumps({"name": row.name, "step": row.step, "data": row.data})
            for row in rows.itertuples(index=False, name="Row")
            if row
        ]
        client.log_text(run.mlflow_id, "\n".join(lines), "tables.jsonl")
        client.delete_tag(run.mlflow_id, "plat.measured")
        client.set_tag(run.mlflow_id, "plat.digest", "1 2 3 4")
        shutil.rmtree(f"{run.folder}/{FOLDER}")
    return home, file, frames


def same(left, right):
    pd.testing.assert_frame_equal(left.metrics, right.metrics, check_exact=True)
    assert left.tables.equals(right.tables)
    pd.testing.assert_frame_equal(left.runs, right.runs)


def test_without_an_artifact_a_run_is_named_and_left_out(older):
    home, file, _ = older
    frames = Store(home.store_uri(), home).load(file)
    assert frames.older == {run.id for run in file.runs} and not len(frames.runs) and not frames.changed


def test_runs_with_a_directory_are_converted_by_an_import(older):
    home, file, before = older
    assert len(import_runs(home, home.store_uri(), [file]).imported) == 2
    same(Store(home.store_uri(), home).load(file), before)
    assert older_runs(home, home.store_uri()) == []


def test_a_run_whose_directory_is_damaged_is_read_through_mlflow(older):
    home, file, before = older
    done = file.runs[0].id
    (home.run(done).attempt(2).events).write_text("damaged\n")
    report = import_runs(home, home.store_uri(), [file])
    assert list(report.damaged) == [done]
    assert Store(home.store_uri(), home).load(file).older == {done}
    convert(home, home.store_uri(), older_runs(home, home.store_uri()))
    same(Store(home.store_uri(), home).load(file), before)


def test_runs_without_a_directory_are_read_through_mlflow(older):
    home, file, before = older
    shutil.rmtree(home.runs)
    left = older_runs(home, home.store_uri())
    assert [run.id for run in left] == [run.id for run in file.runs]
    convert(home, home.store_uri(), left[:1])  # as if it was killed
    convert(home, home.store_uri(), older_runs(home, home.store_uri()))
    after = Store(home.store_uri(), home).load(file)
    same(after, before)
    assert not after.older and older_runs(home, home.store_uri()) == []
    client = mlflow_client(home.store_uri())
    assert "plat.digest" not in client.get_run(after.runs["mlflow_id"][0]).data.tags


def test_the_verb_says_what_it_does(plat, older, monkeypatch):
    home, file, before = older
    shutil.rmtree(home.runs)
    home.runs.mkdir()
    code, _, err = plat("sync", "--convert", "--home", home.root)
    assert code == 0 and "2 runs without a directory in this home" in err and "2 runs converted in" in err
    assert "nothing is left to convert" in plat("sync", "--convert", "--home", home.root)[2]
    same(Store(home.store_uri(), home).load(file), before)
