"""The deep check: every kind of difference between store and run directories is found, named and fixed."""

from __future__ import annotations

import os
import shutil
import sqlite3
from contextlib import closing

import pytest
from store_dump import dump

from plat.app.deep_check import check_results
from plat.cli.verbs.doctor import doctor
from plat.store.mlflow import sqlite_connection
from plat.store.mlflow.frames import Store
from plat.store.mlflow.importer import import_runs
from plat.store.mlflow.mlflow_client import mlflow_client
from plat.store.mlflow.verify import repair_store, verify_store


@pytest.fixture
def filled(home, recipe):
    recipes = [recipe(0), recipe(1, kills=[(6, 4)]), recipe(2, outcome="failed:oom"), recipe(3, outcome=None)]
    for item in recipes:
        item.write(home)
    import_runs(home, home.store_uri())
    return home, recipes


def sql(home, statement):
    with sqlite3.connect(home.database) as connection:
        assert connection.execute(statement).rowcount > 0
    connection.close()


CHOSEN = "run_uuid = (SELECT run_uuid FROM tags WHERE key = 'plat.id' AND value = '0001000000000000')"
CHANGES = {
    "actor/entropy at step 3 is 9.0 instead of": "UPDATE metrics SET value = 9 WHERE key LIKE '%entropy' AND step = 3",
    "val/success at step 8 is missing": "DELETE FROM metrics WHERE key = 'val/success' AND step = 8",
    "step 108 is in the store alone": "UPDATE metrics SET step = 108 WHERE key = 'val/success' AND step = 8",
    "option train.lr is '3' instead of": "UPDATE params SET value = '3' WHERE key = 'train.lr'",
    "the newest val/success, which MLflow shows, is 0.9 at step 8 instead": (
        "UPDATE latest_metrics SET value = 0.9 WHERE key = 'val/success'"
    ),
    "the newest actor/entropy, which MLflow shows, is missing instead": (
        "DELETE FROM latest_metrics WHERE key = 'actor/entropy'"
    ),
    "its status is FAILED instead of FINISHED": "UPDATE runs SET status = 'FAILED' WHERE 1 = 1",
    "tag plat.outcome is 'finishee'": "UPDATE tags SET value = 'finishee' WHERE key = 'plat.outcome'",
}


@pytest.mark.parametrize("message", CHANGES)
def test_a_changed_store_is_noticed_and_mended(filled, message):
    home, recipes = filled
    uri = home.store_uri()
    before = dump(uri)
    assert verify_store(home, uri).differing == {}
    sql(home, f"{CHANGES[message]} AND {CHOSEN}")
    check = verify_store(home, uri)
    assert list(check.differing) == [recipes[1].id] and message in check.differing[recipes[1].id]
    kept = repair_store(home, uri, check)
    assert kept is not None and kept.name == "mlflow.db.backup-1"
    assert dump(uri) == before and verify_store(home, uri).differing == {}


def test_a_changed_table_is_noticed_and_mended(filled):
    home, recipes = filled
    for path in (home.root / "mlartifacts").rglob("tables.jsonl"):
        path.write_bytes(path.read_bytes().replace(b"0.5", b"0.7"))
    check = verify_store(home, home.store_uri())
    assert "tables.jsonl is missing or differs" in check.differing[recipes[1].id] and len(check.differing) == 4
    repair_store(home, home.store_uri(), check)
    assert verify_store(home, home.store_uri()).differing == {}


@pytest.mark.parametrize("how", ["pages", "header"])
def test_damaged_pages_are_noticed_and_the_store_filled_anew(filled, how):
    home, _ = filled
    uri = home.store_uri()
    before = Store(uri, home).load("table4")
    with sqlite3.connect(home.database) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    connection.close()
    size = home.database.stat().st_size
    with open(home.database, "r+b") as file:
        file.seek(0 if how == "header" else size // 2)
        file.write(os.urandom(4096 if how == "header" else size // 3))
    check = verify_store(home, uri)
    assert check.file
    kept = repair_store(home, uri, check)
    assert kept is not None and kept.name == "mlflow.db.damaged-1" and kept.exists()
    after = Store(uri, home).load("table4")
    assert after.metrics.equals(before.metrics) and after.tables.equals(before.tables)
    assert verify_store(home, uri).differing == {}


LOST = ("DROP TABLE metrics", "DROP TABLE alembic_version", "DELETE FROM alembic_version",
        "ALTER TABLE params DROP COLUMN value")  # fmt: skip


@pytest.mark.parametrize("statement", LOST)
def test_a_store_that_lost_a_part_of_its_schema_is_filled_anew(filled, statement):
    home, _ = filled
    uri = home.store_uri()
    before = Store(uri, home).load("table4")  # MLflow itself would keep the old file open
    with closing(sqlite3.connect(home.database)) as connection, connection:
        connection.execute(statement)
    sqlite_connection._CHECKED.clear()  # as in a new process
    check = verify_store(home, uri)
    assert check.file.startswith("its ")
    kept = repair_store(home, uri, check)
    assert kept is not None and kept.name == "mlflow.db.damaged-1"
    assert Store(uri, home).load("table4").metrics.equals(before.metrics)
    assert verify_store(home, uri).differing == {}


def test_what_cannot_be_checked_is_counted_or_named(filled, recipe):
    home, recipes = filled
    shutil.rmtree(home.run(recipes[2].id).root)
    home.run(recipes[1].id).config.write_text("a: [")
    recipe(9).write(home)
    check = verify_store(home, home.store_uri())
    assert check.alone == 1 and list(check.damaged) == [recipes[1].id]
    assert check.differing == {} and check.absent == [recipe(9).id]
    findings = check_results(home, home.store_uri(), fix=False)
    assert [finding.level for finding in findings] == ["error", "warning"]
    assert "1 run is not in the store yet" in findings[1].says and findings[1].fix == "`plat sync` copies them"
    assert "--fix" not in findings[0].fix


def test_a_run_that_ended_since_the_last_import_is_no_difference(home, recipe):
    """`plat doctor --deep` in the middle of a sweep: MLflow has the beginning of the run, and calls it running."""
    run = recipe(1)
    result = run.write(home).result
    done = result.read_bytes()
    result.unlink()
    import_runs(home, home.store_uri())
    result.write_bytes(done)
    check = verify_store(home, home.store_uri())
    assert check.differing == {} and check.behind == [run.id]
    assert import_runs(home, home.store_uri()).imported == [run.id]
    check = verify_store(home, home.store_uri())
    assert check.behind == [] and check.runs == 1


def test_what_users_do_in_mlflow_is_no_damage(filled):
    """Deleted runs, tags and notes of their own."""
    home, _ = filled
    client = mlflow_client(home.store_uri())
    runs = Store(home.store_uri(), home).load("table4").runs["mlflow_id"]
    client.delete_run(runs[0])
    client.set_tag(runs[1], "my.note", "x")
    check = verify_store(home, home.store_uri())
    assert not check.differing and not check.damaged and repair_store(home, home.store_uri(), check) is None
    findings = check_results(home, home.store_uri(), fix=True)
    assert [finding.level for finding in findings] == ["warning", "ok"]
    assert list(check.deleted) == [filled[1][0].id] and "1 run deleted in MLflow" in findings[0].says


def test_a_home_copied_without_times_is_compared_all_the_same(filled):
    """The files' times are part of the signature by which an import knows what it has; values are compared anyway."""
    home, recipes = filled
    for file in home.runs.rglob("*.json"):
        os.utime(file, (1, 1))
    check = verify_store(home, home.store_uri())
    assert not check.differing and check.runs == 2 and check.behind == [recipes[2].id, recipes[3].id]
    says = [finding.says for finding in check_results(home, home.store_uri(), fix=False)]
    assert "2 runs not compared" in says[0] and "2 stored runs compared with their directories: all " in says[1]
    sql(home, f"{CHANGES['val/success at step 8 is missing']} AND {CHOSEN}")
    assert list(verify_store(home, home.store_uri()).differing) == [recipes[1].id]


def test_a_store_that_a_killed_mending_took_away_is_filled_again(filled):
    home, _ = filled
    for piece in home.root.glob("mlflow.db*"):
        piece.rename(piece.with_name(piece.name.replace("mlflow.db", "mlflow.db.damaged-1")))
    findings = check_results(home, home.store_uri(), fix=True)
    assert [finding.level for finding in findings] == ["ok", "ok"] and "filled from the run directories" in findings[
        0
    ].says
    assert len(Store(home.store_uri(), home).load("table4").runs) == 4


def test_a_mended_store_is_called_whole(filled, capsys):
    home, _ = filled
    home.database.write_bytes(b"damaged")
    doctor(fix=True, home=home.root)
    levels = {line.split()[1]: line.split()[0] for line in capsys.readouterr().out.splitlines() if line[:1] != " "}
    assert levels["store"] == levels["results"] == "ok"
