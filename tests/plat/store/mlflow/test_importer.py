"""What the importer writes into MLflow, and what repeating, removing, redoing and deleting change."""

from __future__ import annotations

import math
import shutil
import sys

import pytest
from store_dump import dump

from plat.store.mlflow import importer
from plat.store.mlflow.importer import import_runs
from plat.store.mlflow.mlflow_client import mlflow_client
from plat.store.run_directory.spool import SpoolWriter


def test_everything_of_a_run_is_in_mlflow(home, recipe, experiment, runs_of):
    single = recipe(1, files=["table4", "keep_rates"], kills=[(6, 4)])
    single.write(home)
    report = import_runs(home, home.store_uri(), [experiment("table4", [single])])
    assert report.imported == [single.id] and not report.warnings()

    mlflow = mlflow_client(home.store_uri())
    assert "ragen2 · laptop" in {item.name for item in mlflow.search_experiments()}
    (run,) = runs_of(home)
    assert run.info.run_name == "run-00010000" and run.info.status == "FINISHED"
    assert (run.info.start_time, run.info.end_time - run.info.start_time) == (1_700_000_000_000, 100_000)
    assert run.data.params == {"seed": "1", "train.lr": "0.0003", "train.iterations": "8", "model.path": "null"}
    tags = run.data.tags
    assert tags["plat.axis.seed"] == "1" and tags["plat.outcome"] == "finished" and tags["plat.attempt"] == "2"
    assert tags["plat.in.table4"] == tags["plat.in.keep_rates"] == "1" and tags["plat.versions.torch"] == "2.13.0"
    assert tags["plat.code.commit"] == "abc123" and tags["plat.summary.parameters"] == "12"
    history = mlflow.get_metric_history(run.info.run_id, "actor/entropy")
    assert [(point.step, point.value) for point in history] == [
        (s, single.metrics(s, "actor/entropy")) for s in range(9)
    ]
    assert run.data.metrics["actor/entropy"] == single.metrics(8, "actor/entropy")
    special = mlflow.get_metric_history(run.info.run_id, "mi/first_turn/mi_zscore")
    assert special[3].value == sys.float_info.max and math.isnan(special[5].value)

    names = {entry.path for entry in mlflow.list_artifacts(run.info.run_id)}
    assert names == {"config.yaml", "plat"}
    (parent,) = runs_of(home, "tags.`plat.file` = 'table4'")
    assert parent.info.run_name == "table4" and parent.data.tags["plat.kind"] == "experiment"
    assert "The title of table4" in parent.data.tags["mlflow.note.content"]
    assert (parent.info.status, parent.info.end_time) == ("FINISHED", run.info.end_time)
    assert len(runs_of(home, "tags.`plat.file` = 'keep_rates'")) == 1


@pytest.mark.parametrize("has_list", [True, False])
def test_an_import_that_was_killed_before_its_end_leaves_no_file_running(
    home, recipe, experiment, runs_of, monkeypatch, has_list
):
    first, second = recipe(1, files=["table4"], outcome=None), recipe(2, files=["table4"])
    file = experiment("table4", [first, second])
    first.write(home)
    import_runs(home, home.store_uri(), [file])
    assert runs_of(home, "tags.`plat.file` = 'table4'")[0].info.status == "RUNNING"
    import_runs(home, home.store_uri(), [file])  # a run of it is RUNNING, so nothing is to do
    shutil.rmtree(home.run(first.id).root)
    recipe(1, files=["table4"]).write(home)
    second.write(home)

    class Killed(BaseException):
        pass

    def die(*_):
        raise Killed

    with monkeypatch.context() as patch, pytest.raises(Killed):
        patch.setattr(importer.StoreWriter, "settle", die)
        import_runs(home, home.store_uri(), [file])
    if has_list:
        importer.StoredList(home, home.store_uri())
    report = import_runs(home, home.store_uri(), [file])
    assert not report.imported and report.unchanged == 2
    (parent,) = runs_of(home, "tags.`plat.file` = 'table4'")
    assert parent.info.status == "FINISHED" and parent.info.end_time
    monkeypatch.setattr(importer, "open_writer", die)
    import_runs(home, home.store_uri(), [file])  # nothing is left to write


def test_a_run_that_waits_in_a_queue_is_not_in_mlflow_until_it_begins(home, recipe, runs_of):
    single = recipe(1, outcome=None)
    paths = single.write(home)
    (paths.root / "attempts").rename(home.root / "later")
    report = import_runs(home, home.store_uri())
    assert not (report.imported or report.unchanged or report.warnings()) and not runs_of(home)
    (home.root / "later").rename(paths.root / "attempts")
    assert import_runs(home, home.store_uri()).imported == [single.id] and len(runs_of(home)) == 1


def test_only_durable_steps_of_a_running_run(home, recipe, runs_of):
    single = recipe(1, outcome=None, steps=5)
    paths = single.write(home)
    single.log(SpoolWriter(paths.attempt(1).events, paths.id), 6)  # after the newest checkpoint
    import_runs(home, home.store_uri())
    (run,) = runs_of(home)
    assert run.info.status == "RUNNING" and run.info.end_time is None and "plat.outcome" not in run.data.tags
    history = mlflow_client(home.store_uri()).get_metric_history(run.info.run_id, "val/success")
    assert [point.step for point in history] == [*range(6)]


@pytest.mark.parametrize(
    "outcome, status",
    [
        ("stopped:low_success", "FINISHED"),
        ("failed:oom", "FAILED"),
        ("cancelled", "KILLED"),
        ("interrupted", "RUNNING"),
    ],
)
def test_outcomes(home, recipe, outcome, status, runs_of):
    recipe(1, outcome=outcome).write(home)
    import_runs(home, home.store_uri())
    (run,) = runs_of(home)
    assert run.info.status == status
    assert run.data.tags.get("plat.outcome") == (None if status == "RUNNING" else outcome)


def test_a_retried_run_loses_its_old_outcome(home, recipe, runs_of):
    paths = recipe(1, outcome="failed:oom").write(home)
    import_runs(home, home.store_uri())
    paths.attempt(2).root.mkdir()
    paths.attempt(2).events.write_text("")
    mlflow_client(home.store_uri()).set_tag(runs_of(home)[0].info.run_id, "my.note", "keep me")
    assert import_runs(home, home.store_uri()).imported == [paths.id]
    (run,) = runs_of(home)
    assert run.info.status == "RUNNING" and "plat.outcome" not in run.data.tags
    assert run.data.tags["my.note"] == "keep me"


def test_nothing_changed_means_nothing_read_or_locked(home, recipe, experiment, monkeypatch):
    recipes = [recipe(n) for n in range(3)]
    for item in recipes:
        item.write(home)
    files = [experiment("table4", recipes)]
    import_runs(home, home.store_uri(), files)
    monkeypatch.setattr(importer, "import_lock", None)
    monkeypatch.setattr(importer, "read_record", None)
    assert import_runs(home, home.store_uri(), files).unchanged == 3


def test_a_second_file_tags_the_run_and_stores_nothing_twice(home, recipe, experiment, runs_of):
    single = recipe(1)
    single.write(home)
    import_runs(home, home.store_uri(), [experiment("table4", [single])])
    import_runs(home, home.store_uri(), [experiment("other", [single])])
    (run,) = runs_of(home)
    assert run.data.tags["plat.in.other"] == "1"


def test_a_removed_store_is_filled_again(make_home, recipe, experiment, empty_store):
    home = make_home()
    recipes = [recipe(n, kills=[(5, 3)]) for n in range(2)]
    for item in recipes:
        item.write(home)
    files = [experiment("table4", recipes)]
    import_runs(home, home.store_uri(), files)
    before = dump(home.store_uri())
    for path in home.root.glob("mlflow.db*"):
        path.unlink()
    shutil.rmtree(home.root / "mlartifacts")
    shutil.copy(empty_store, home.database)
    import_runs(home, home.store_uri(), files)
    after = dump(home.store_uri())
    for stored in (before, after):
        stored.pop("Default", None)  # MLflow's own empty experiment, which it makes when it first opens a store
    assert after == before


def test_a_run_redone_is_not_stored_twice(home, recipe):
    paths = recipe(1, kills=[(6, 4)]).write(home)
    import_runs(home, home.store_uri())
    before = dump(home.store_uri())
    shutil.rmtree(paths.root)
    recipe(1, clock=1.8e9).write(home)
    assert import_runs(home, home.store_uri()).imported == [paths.id]
    assert dump(home.store_uri()) == before


def test_a_run_redone_with_other_values_is_named_and_left(home, recipe):
    paths = recipe(1, outcome=None, steps=4).write(home)
    import_runs(home, home.store_uri())
    before = dump(home.store_uri())
    shutil.rmtree(paths.root)
    recipe(1, salt=1.0).write(home)
    report = import_runs(home, home.store_uri())
    assert report.differing == [paths.id] and "other values" in report.warnings()[0]
    assert dump(home.store_uri()) == before


def test_deleted_in_mlflow_stays_deleted_until_restored(home, recipe, experiment, runs_of):
    single, two = recipe(1, outcome=None, steps=4), recipe(2)
    paths = single.write(home)
    two.write(home)
    import_runs(home, home.store_uri())
    run = next(run for run in runs_of(home) if run.data.tags["plat.id"] == single.id)
    mlflow = mlflow_client(home.store_uri())
    mlflow.delete_run(run.info.run_id)
    shutil.rmtree(paths.root)
    recipe(1).write(home)
    report = import_runs(home, home.store_uri(), [experiment("table4", [single, two])])
    assert report.deleted == [single.id] and "deleted" in report.warnings()[0]
    assert [actual.data.tags["plat.id"] for actual in runs_of(home)] == [two.id]
    mlflow.restore_run(run.info.run_id)
    assert import_runs(home, home.store_uri()).imported == [single.id]
    assert mlflow.get_run(run.info.run_id).info.status == "FINISHED"


def test_a_deleted_mlflow_experiment_or_file_run_stays_deleted(home, recipe, runs_of):
    recipe(1).write(home)
    import_runs(home, home.store_uri())
    mlflow = mlflow_client(home.store_uri())
    mlflow.delete_run(runs_of(home, "tags.`plat.kind` = 'experiment'")[0].info.run_id)
    recipe(2).write(home)
    assert import_runs(home, home.store_uri()).imported == [recipe(2).id]
    mlflow.delete_experiment(runs_of(home)[0].info.experiment_id)
    recipe(3).write(home)
    assert sorted(import_runs(home, home.store_uri()).deleted) == [recipe(n).id for n in (1, 2, 3)]


def test_the_name_in_mlflow_begins_with_the_seed(home, recipe, runs_of, monkeypatch):
    made = recipe(1)
    meta = type(made).meta
    monkeypatch.setattr(type(made), "meta", lambda self: {**meta(self), "name": "lr0.0025-a-s-b-s3-00010000"})
    made.write(home)
    import_runs(home, home.store_uri())
    assert [run.info.run_name for run in runs_of(home)] == ["seed3-lr0.0025-a-s-b-00010000"]
