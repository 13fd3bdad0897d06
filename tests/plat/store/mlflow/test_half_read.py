"""A store that got a done run without its end, as plat wrote it before it read such runs again: found, and mended."""

from __future__ import annotations

from dataclasses import replace

from plat.store.mlflow import importer
from plat.store.mlflow.artifacts import read_artifacts
from plat.store.mlflow.checking import check_runs, repair
from plat.store.mlflow.importer import import_runs
from plat.store.mlflow.run_record import read_record
from plat.store.mlflow.stored_runs import stored_runs


def test_a_done_run_without_its_end_is_found_and_mended(home, recipe, monkeypatch):
    single = recipe(1)
    single.write(home)
    uri = home.store_uri()
    (run,) = home.all_runs()
    whole = read_record(run)

    def half(paths, wanted_by=()):
        record = read_record(paths, wanted_by)
        return replace(record, metrics=record.metrics[:-1])

    with monkeypatch.context() as patch:
        patch.setattr(importer, "read_record", half)
        import_runs(home, uri)
    assert import_runs(home, uri).unchanged == 1  # a usual import does not look
    check = check_runs(home, uri)
    key, step, *_ = whole.metrics[-1]
    assert check.differing == {run.id: f"{key} at step {step} is not stored (1 in all)"}
    repair(home, uri, check)
    assert not check_runs(home, uri).differing
    stored = read_artifacts(home, uri, list(stored_runs(home, uri).values()))[run.id]
    assert len(stored.history()[0]) == len(whole.metrics)
