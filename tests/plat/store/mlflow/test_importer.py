"""The importer: what lands in MLflow, that repeating, reordering and killing change nothing, and how it refuses."""

from __future__ import annotations

import itertools
import json
import math
import os
import random
import shutil
import signal
import sqlite3
import subprocess
import sys
import time

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from plat.errors import StoreError
from plat.store.mlflow import importer, sqlite_connection
from plat.store.mlflow.client import mlflow_client
from plat.store.mlflow.client_store import ClientStore
from plat.store.mlflow.connect import open_backend
from plat.store.mlflow.dump import dump
from plat.store.mlflow.importer import import_runs
from plat.store.mlflow.record import clean_key, read_record
from plat.store.run_directory.spool import SpoolWriter


def client(home):
    return mlflow_client(home.store_uri())


def runs_of(home, query="tags.`plat.kind` = 'run'"):
    mlflow = client(home)
    ids = [item.experiment_id for item in mlflow.search_experiments()]
    return mlflow.search_runs(ids, query)


def test_everything_of_a_run_is_in_mlflow(home, recipe, experiment):
    single = recipe(1, files=["table4", "keep_rates"], kills=[(6, 4)])
    single.write(home)
    report = import_runs(home, home.store_uri(), [experiment("table4", [single])])
    assert report.imported == [single.id] and not report.warnings()

    mlflow = client(home)
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
    assert names == {"config.yaml", "tables.jsonl"}
    parent = mlflow.get_run(tags["mlflow.parentRunId"])
    assert parent.info.run_name == "table4" and parent.data.tags["plat.kind"] == "experiment"
    assert "The title of table4" in parent.data.tags["mlflow.note.content"]
    assert (parent.info.status, parent.info.end_time) == ("FINISHED", run.info.end_time)
    assert len(runs_of(home, "tags.`plat.file` = 'keep_rates'")) == 1


def test_only_durable_steps_of_a_running_run(home, recipe):
    single = recipe(1, outcome=None, steps=5)
    paths = single.write(home)
    single.log(SpoolWriter(paths.attempt(1).events), 6)  # after the newest checkpoint
    import_runs(home, home.store_uri())
    (run,) = runs_of(home)
    assert run.info.status == "RUNNING" and run.info.end_time is None and "plat.outcome" not in run.data.tags
    assert [p.step for p in client(home).get_metric_history(run.info.run_id, "val/success")] == [*range(6)]


@pytest.mark.parametrize(
    "outcome, status",
    [
        ("stopped:low_success", "FINISHED"),
        ("failed:oom", "FAILED"),
        ("cancelled", "KILLED"),
        ("interrupted", "RUNNING"),
    ],
)
def test_outcomes(home, recipe, outcome, status):
    recipe(1, outcome=outcome).write(home)
    import_runs(home, home.store_uri())
    (run,) = runs_of(home)
    assert run.info.status == status
    assert run.data.tags.get("plat.outcome") == (None if status == "RUNNING" else outcome)


def test_a_retried_run_loses_its_old_outcome(home, recipe):
    paths = recipe(1, outcome="failed:oom").write(home)
    import_runs(home, home.store_uri())
    paths.attempt(2).root.mkdir()
    paths.attempt(2).events.write_text("")
    client(home).set_tag(runs_of(home)[0].info.run_id, "my.note", "keep me")
    assert import_runs(home, home.store_uri()).imported == [paths.id]
    (run,) = runs_of(home)
    assert run.info.status == "RUNNING" and run.info.end_time is None and "plat.outcome" not in run.data.tags
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


def test_a_second_file_tags_the_run_and_stores_nothing_twice(home, recipe, experiment):
    single = recipe(1)
    single.write(home)
    import_runs(home, home.store_uri(), [experiment("table4", [single])])
    import_runs(home, home.store_uri(), [experiment("other", [single])])
    (run,) = runs_of(home)
    assert run.data.tags["plat.in.other"] == "1"
    assert client(home).get_run(run.data.tags["mlflow.parentRunId"]).info.run_name == "table4"


def test_a_removed_store_is_filled_again(make_home, recipe, experiment, store_template):
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
    shutil.copy(store_template, home.database)
    import_runs(home, home.store_uri(), files)
    assert dump(home.store_uri()) == before


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


def test_deleted_in_mlflow_stays_deleted_until_restored(home, recipe, experiment):
    single, two = recipe(1, outcome=None, steps=4), recipe(2)
    paths = single.write(home)
    two.write(home)
    import_runs(home, home.store_uri())
    run = next(run for run in runs_of(home) if run.data.tags["plat.id"] == single.id)
    mlflow = client(home)
    mlflow.delete_run(run.info.run_id)
    shutil.rmtree(paths.root)
    recipe(1).write(home)
    report = import_runs(home, home.store_uri(), [experiment("table4", [single, two])])
    assert report.deleted == [single.id] and "deleted" in report.warnings()[0]
    assert [actual.data.tags["plat.id"] for actual in runs_of(home)] == [two.id]
    mlflow.restore_run(run.info.run_id)
    assert import_runs(home, home.store_uri()).imported == [single.id]
    assert mlflow.get_run(run.info.run_id).info.status == "FINISHED"


def test_a_deleted_mlflow_experiment_or_file_run_stays_deleted(home, recipe):
    recipe(1).write(home)
    import_runs(home, home.store_uri())
    mlflow = client(home)
    mlflow.delete_run(runs_of(home)[0].data.tags["mlflow.parentRunId"])
    recipe(2).write(home)
    assert import_runs(home, home.store_uri()).imported == [recipe(2).id]
    mlflow.delete_experiment(runs_of(home)[0].info.experiment_id)
    recipe(3).write(home)
    assert sorted(import_runs(home, home.store_uri()).deleted) == [recipe(n).id for n in (1, 2, 3)]


# -- laws -------------------------------------------------------------------------------------------------------------


@settings(max_examples=8, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(order=st.lists(st.integers(0, 3), max_size=6), through_client=st.booleans())
def test_any_order_any_number_of_times(make_home, recipe, experiment, order, through_client):
    """Importing single runs in any order, repeatedly, through either writer, ends in the same content."""
    recipes = [recipe(0), recipe(1, kills=[(3, 2), (7, 6)]), recipe(2, files=["b", "table4"]), recipe(3, outcome=None)]
    files = [experiment("table4", recipes), experiment("b", recipes[2:3])]
    home = make_home(f"home{next(COUNTER)}")
    paths = [item.write(home) for item in recipes]
    for number in order:
        _import_one(home, paths[number], files, through_client)
    import_runs(home, home.store_uri(), files)
    actual = dump(home.store_uri())
    assert len(actual["ragen2 · laptop"]) == 6
    assert actual == EXPECTED.setdefault("content", actual)


EXPECTED: dict[str, dict] = {}
COUNTER = itertools.count()


def _import_one(home, paths, files, through_client):
    if not through_client:
        import_runs(home, home.store_uri(), files, [paths])
        return
    wanted = {run.id: [item.name for item in files if run in item.runs] for item in files for run in item.runs}
    backend, report = ClientStore(home.store_uri(), home), importer.ImportReport()
    importer._import(backend, [paths], wanted, {item.name: importer.file_info(item) for item in files}, report, False)
    assert not report.warnings()


def test_both_writers_write_the_same(make_home, recipe, experiment):
    contents = []
    for name in ("direct", "client"):
        home = make_home(name)
        recipes = [recipe(0, config={"long": "x" * 7000, "odd key@": [1, 2], "empty": {}}), recipe(1, kills=[(6, 4)])]
        paths = [item.write(home) for item in recipes]
        for item in paths:
            _import_one(home, item, [experiment("table4", recipes)], name == "client")
        contents.append(dump(home.store_uri()))
        assert {len(run.data.params) for run in runs_of(home)} == {7, 4}
    assert contents[0] == contents[1]


WORKER = """
import sys
from plat.store.home import Home
from plat.store.mlflow.importer import import_runs
home = Home.find(sys.argv[1])
print("ready", flush=True)
runs = sorted(home.runs.iterdir(), reverse=sys.argv[2] == "backwards")
for path in runs:
    import_runs(home, home.store_uri(), runs=[home.run(path.name)])
"""


def test_two_processes_and_kills_in_the_middle(make_home, recipe):
    """Two importers at once in opposite orders, killed again and again: the content of one undisturbed import."""
    recipes = [recipe(n, steps=60, kills=[(30, 20)]) for n in range(12)]
    homes = [make_home("quiet"), make_home("killed")]
    for item in recipes:
        shutil.copytree(item.write(homes[0]).root, homes[1].run(item.id).root)
    import_runs(homes[0], homes[0].store_uri())
    rng = random.Random(0)
    for delay in [rng.uniform(0.01, 0.25) for _ in range(5)] + [None]:
        workers = [
            subprocess.Popen([sys.executable, "-c", WORKER, homes[1].root, way], stdout=subprocess.PIPE)
            for way in ("forwards", "backwards")
        ]
        for worker in workers:
            worker.stdout.readline()
        if delay is not None:
            time.sleep(delay)
            for worker in workers:
                os.kill(worker.pid, signal.SIGKILL)
        for worker in workers:
            worker.communicate()
        codes = [worker.returncode for worker in workers]
    assert codes == [0, 0]
    assert _rows(homes[1]) == _rows(homes[0])
    assert import_runs(homes[1], homes[1].store_uri()).imported == []


def _rows(home):
    """Every row of the tables we write, MLflow ids and artifact paths included; fingerprints and file times not."""
    with sqlite3.connect(home.database) as db:
        return {
            "metrics": sorted(db.execute("SELECT run_uuid, key, step, value, is_nan, timestamp FROM metrics")),
            "latest": sorted(db.execute("SELECT run_uuid, key, step, value, is_nan, timestamp FROM latest_metrics")),
            "params": sorted(db.execute("SELECT run_uuid, key, value FROM params")),
            "tags": sorted(db.execute("SELECT run_uuid, key, value FROM tags WHERE key <> 'plat.imported'")),
            "runs": sorted(db.execute("SELECT run_uuid, name, status, start_time, end_time FROM runs")),
            "files": sorted(
                (str(path.relative_to(home.root)), path.read_bytes())
                for path in (home.root / "mlartifacts").rglob("*")
                if path.is_file()
            ),
        }


# -- refusals ---------------------------------------------------------------------------------------------------------


def test_a_locked_store_loses_nothing(home, recipe, monkeypatch):
    recipe(1).write(home)
    monkeypatch.setattr(sqlite_connection, "BUSY_SECONDS", 0.1)
    holder = sqlite3.connect(home.database, isolation_level=None)
    holder.execute("BEGIN EXCLUSIVE")
    with pytest.raises(StoreError, match="locked") as error:
        import_runs(home, home.store_uri())
    assert "plat sync" in error.value.mend
    holder.execute("ROLLBACK")
    assert import_runs(home, home.store_uri()).imported == [recipe(1).id]


def test_another_import_that_does_not_end(home, recipe, monkeypatch):
    recipe(1).write(home)
    monkeypatch.setattr(importer, "LOCK_SECONDS", 0.1)
    with importer.import_lock(home), pytest.raises(StoreError, match="another import"):
        import_runs(home, home.store_uri())


@pytest.mark.parametrize(
    "revision, message", [("ffffffffffff", "newer MLflow"), ("0584bdc529eb", "older MLflow"), (None, "not an MLflow")]
)
def test_a_store_of_another_version(home, recipe, revision, message):
    recipe(1).write(home)
    with sqlite3.connect(home.database) as db:
        if revision is None:
            db.execute("DROP TABLE runs")
        else:
            db.execute("UPDATE alembic_version SET version_num = ?", (revision,))
    with pytest.raises(StoreError, match=message):
        import_runs(home, home.store_uri())


def test_a_damaged_store_and_one_that_cannot_be_made(home, recipe, tmp_path):
    recipe(1).write(home)
    home.database.write_bytes(b"nonsense" * 1000)
    with pytest.raises(StoreError, match="damaged"):
        import_runs(home, home.store_uri())
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(StoreError, match="cannot be written"):
        import_runs(home, f"sqlite:///{tmp_path}/file/mlflow.db")
    with pytest.raises(StoreError, match="in-memory"):
        import_runs(home, "sqlite://")
    with pytest.raises(StoreError):
        import_runs(home, "nonsense://somewhere")


def test_a_full_disk_in_the_middle_of_an_import(home, recipe):
    """Run by run all or nothing: what was imported before stays, the rest follows when there is room again."""
    for n in range(6):
        recipe(n, steps=400).write(home)
    code = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (1_700_000,) * 2)\n"
    code += "import signal; signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
    done = subprocess.run([sys.executable, "-c", code + WORKER, home.root, "forwards"], capture_output=True, text=True)
    assert "StoreError" in done.stderr.splitlines()[-1]
    actual = runs_of(home)
    assert 0 < len(actual) < 6 and {len(runs) for runs in _histories(home)} == {401}
    import_runs(home, home.store_uri())
    assert len(_histories(home)) == 6


def _histories(home):
    mlflow = client(home)
    return [mlflow.get_metric_history(run.info.run_id, "val/success") for run in runs_of(home)]


@pytest.mark.parametrize("scheme", ["http", "postgresql"])
def test_a_server_that_is_not_there(home, recipe, monkeypatch, scheme):
    recipe(1).write(home)
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    with pytest.raises(StoreError, match="cannot be reached") as error:
        import_runs(home, f"{scheme}://me:secret@127.0.0.1:9/store")
    assert "secret" not in error.value.render()


def test_plain_folders_are_refused_with_advice(home, recipe, tmp_path):
    recipe(1).write(home)
    with pytest.raises(StoreError) as error:
        import_runs(home, f"file://{tmp_path}/mlruns")
    assert "sqlite:///" in error.value.mend


def test_damaged_directories_are_reported_not_fatal(home, recipe):
    recipe(1).write(home)
    without_meta, without_config = recipe(2).write(home), recipe(3).write(home)
    without_meta.meta.write_text("{")
    without_config.config.write_text("a: [")
    report = import_runs(home, home.store_uri())
    assert report.imported == [recipe(1).id] and report.unreadable == [without_meta.id, without_config.id]


@pytest.mark.parametrize("part", [{"axes": 3}, {"axes": ["seed"]}, {"experiments": "table4"}, {"code": [1]}])
def test_a_meta_file_of_another_shape_is_damaged(home, recipe, part):
    """Written without a checksum, as a meta.json of plat 0.1 is."""
    recipe(1).write(home)
    odd = recipe(2).write(home)
    meta = json.loads(odd.meta.read_text()) | part
    odd.meta.write_text(json.dumps({key: value for key, value in meta.items() if key != "checksum"}))
    report = import_runs(home, home.store_uri())
    assert report.imported == [recipe(1).id] and report.unreadable == [odd.id] and report.exit_code == 3


# -- records ----------------------------------------------------------------------------------------------------------


@settings(deadline=None)
@given(st.text(max_size=300))
def test_clean_keys_are_accepted_by_mlflow(name):
    from mlflow.utils.validation import _validate_metric, _validate_param, _validate_tag

    key = clean_key(name)
    _validate_metric(key, 1.0, 0, 0)
    _validate_param(key, "x")
    _validate_tag(key, "x")
    assert clean_key(key) == key


def test_names_in_use_are_kept():
    for name in ("val/success", "recall_at_2/4", "mi/first_turn/h_z_given_x_seq", "train.lr", "plat.in.table4"):
        assert clean_key(name) == name


def test_a_record_does_not_depend_on_when_it_is_read(home, recipe):
    paths = recipe(1, kills=[(6, 4)]).write(home)
    first = read_record(paths)
    time.sleep(0.01)
    assert read_record(paths) == first and first.points == sorted(first.points, key=lambda point: point[1::-1])
    assert json.loads(first.artifacts["tables.jsonl"].splitlines()[1]) == {
        "name": "reward_matrix", "step": 4, "data": [[4, 0.5], [1, None]],
    }  # fmt: skip


def test_the_first_import_makes_the_store(make_home, recipe):
    """Two processes at once on a home without a store; the parent does not import MLflow."""
    home = make_home(store=False)
    for n in range(4):
        recipe(n).write(home)
    workers = [
        subprocess.Popen([sys.executable, "-c", WORKER + CHECK, home.root, way], stderr=subprocess.PIPE, text=True)
        for way in ("forwards", "backwards")
    ]
    for worker in workers:
        assert (worker.communicate()[1], worker.returncode) == ("", 0)
    with sqlite3.connect(home.database) as db:
        assert db.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    assert len(runs_of(home)) == 4
    open_backend(home, home.store_uri()).close()


CHECK = "\nassert 'mlflow' not in sys.modules\n"
