"""Runs that are here with other content are shown and left alone."""

from __future__ import annotations

import shutil

import pytest
from bundle_files import contents, refused
from store_dump import dump

from plat.errors import StoreError
from plat.store.bundle.bundle_importer import import_bundle
from plat.store.disk.durable import read_json, to_checked_json
from plat.store.mlflow.frames import Store
from plat.store.mlflow.importer import import_runs
from plat.store.mlflow.mlflow_client import mlflow_client
from plat.store.run_directory.state import run_state


@pytest.mark.parametrize("where", ["home", "store"])
def test_a_run_with_other_values_is_refused_and_shown(exported, make_home, recipe, where):
    """Also when the run's directory is gone and only the store remembers it."""
    _, _, folder, _ = exported
    other = make_home("other")
    paths = recipe(1, salt=1.0).write(other)
    import_runs(other, other.store_uri())
    if where == "store":
        shutil.rmtree(paths.root)
    before = dump(other.store_uri())
    said = refused(other, folder, f"1 of the bundle's . runs are in (this|the) {where} with other content")
    assert "actor/entropy at step 0" in said and paths.id[:8] in said
    assert dump(other.store_uri()) == before


def test_other_bases_and_outcomes_are_other_content(exported, make_home, recipe):
    _, _, folder, _ = exported
    other = make_home("other")
    paths = recipe(1).write(other)
    change = {"outcome": "stopped:low_success", "summary": {"base_sha256": "ba5e"}}
    paths.result.write_bytes(to_checked_json(read_json(paths.result) | change))
    said = refused(other, folder, "with other content")
    assert "outcome is stopped:low_success here and finished in the bundle" in said
    assert "base model is ba5e here and not recorded in the bundle" in said


def test_times_attempts_and_machines_may_differ(exported, make_home, recipe):
    _, _, folder, _ = exported
    other = make_home("other")
    recipe(0, clock=1.8e9).write(other)  # never killed, at another time
    done = import_bundle(other, other.store_uri(), folder)
    assert (len(done.new), done.present) == (3, 1)


def test_a_run_that_is_unfinished_here_is_not_mixed(exported, make_home, recipe):
    _, _, folder, _ = exported
    other = make_home("other")
    recipe(1, outcome=None, steps=4).write(other)
    assert "it is interrupted here" in refused(other, folder, "with other content")


def test_a_run_that_was_never_started_here_is_replaced(exported, make_home, recipe):
    _, _, folder, _ = exported
    other = make_home("other")
    paths = recipe(1).write(other)
    shutil.rmtree(paths.root / "attempts")
    paths.result.unlink()
    assert paths.id in import_bundle(other, other.store_uri(), folder).new
    assert run_state(paths).state == "done"


def test_a_store_that_is_down_is_said_before_anything_is_imported(exported, make_home):
    _, _, folder, _ = exported
    other = make_home("other")
    other.database.write_bytes(b"nonsense" * 1000)
    with pytest.raises(StoreError, match="damaged"):
        import_bundle(other, other.store_uri(), folder)
    assert not contents(other.runs)


def test_runs_deleted_in_mlflow_stay_deleted(exported, make_home, recipe):
    _, _, folder, _ = exported
    other = make_home("other")
    import_bundle(other, other.store_uri(), folder)
    client = mlflow_client(other.store_uri())
    client.delete_run(Store(other.store_uri(), other).load("table4").runs["mlflow_id"][0])
    shutil.rmtree(other.run(recipe(0).id).root)
    done = import_bundle(other, other.store_uri(), folder)
    assert done.stored.deleted == [recipe(0).id] and "deleted" in done.stored.warnings()[0]
