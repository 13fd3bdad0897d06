"""What was changed or deleted in the store is noticed by the reader, and brought back where the directory is here."""

from __future__ import annotations

import math
import shutil
import sqlite3
from contextlib import closing

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from store_dump import dump

from plat.store.mlflow import digest as digests
from plat.store.mlflow.backend import Series
from plat.store.mlflow.connect import ClientReader
from plat.store.mlflow.digest import TAG, Digest, digest_tags
from plat.store.mlflow.frames import Store
from plat.store.mlflow.importer import import_runs
from plat.store.mlflow.run_record import Point, RunRecord
from plat.store.mlflow.verify import restore_runs

OF_RUN = "run_uuid = (SELECT run_uuid FROM tags WHERE key = 'plat.id' AND value = '0001000000000000')"
CHANGES = {
    "a value": f"UPDATE metrics SET value = 0.999 WHERE key = 'val/success' AND step = 3 AND {OF_RUN}",
    "a value that was no number": f"UPDATE metrics SET is_nan = 0 WHERE key = 'mi/first_turn/mi_zscore' AND {OF_RUN}",
    "a step": f"UPDATE metrics SET step = 108 WHERE key = 'val/success' AND step = 8 AND {OF_RUN}",
    "a key": f"UPDATE metrics SET key = 'val/other' WHERE key = 'val/success' AND {OF_RUN}",
    "the last step": f"DELETE FROM metrics WHERE step = 8 AND {OF_RUN}",
    "a metric": f"DELETE FROM metrics WHERE key = 'val/success' AND {OF_RUN}",
    "all metrics": f"DELETE FROM metrics WHERE {OF_RUN}",
    "more values": f"INSERT INTO metrics SELECT key, 0.5, timestamp + 1, run_uuid, step, 0 FROM metrics WHERE {OF_RUN}",
    "the outcome": f"UPDATE tags SET value = 'stopped:low_success' WHERE key = 'plat.outcome' AND {OF_RUN}",
    "a fact": f"UPDATE tags SET value = '7' WHERE key = 'plat.summary.parameters' AND {OF_RUN}",
    "the digest": f"UPDATE tags SET value = 'x' WHERE key = 'plat.digest' AND {OF_RUN}",
}  # fmt: skip


@pytest.fixture
def filled(home, recipe, experiment):
    """A home with two done runs in its store, and the file that asks for them."""
    recipes = [recipe(1), recipe(2)]
    for item in recipes:
        item.write(home)
    file = experiment("table4", recipes)
    import_runs(home, home.store_uri(), [file])
    return home, file


def sql(home, statement):
    with closing(sqlite3.connect(home.database)) as store:
        assert store.execute(statement).rowcount > 0
        store.commit()


def tables_of(home):
    return sorted((home.root / "mlartifacts").rglob("tables.jsonl"))


@pytest.mark.parametrize("change", CHANGES)
def test_a_changed_run_has_no_results_until_it_is_restored(filled, change):
    home, file = filled
    uri, changed = home.store_uri(), file.runs[0].id
    before, expected = dump(uri), Store(uri, home).load(file)
    sql(home, CHANGES[change])
    frames = Store(uri, home).load(file)
    assert list(frames.changed) == [changed] and list(frames.runs.outcome) == ["damaged", "finished"]
    assert changed not in {*frames.metrics.run_id, *frames.tables.run_id}
    restore_runs(home, uri, frames.changed)
    restored = Store(uri, home).load(file)
    assert not restored.changed and restored.metrics.equals(expected.metrics) and restored.runs.equals(expected.runs)
    assert dump(uri) == before


@pytest.mark.parametrize("how", ["another run's", "edited", "emptied", "removed"])
def test_changed_tables_are_noticed_and_restored(filled, how):
    home, file = filled
    path, other = tables_of(home)
    whole = path.read_bytes()
    if how == "removed":
        path.unlink()
    elif how == "another run's":
        other.write_bytes(other.read_bytes() + b"\n")
        shutil.copy(other, path)
    else:
        path.write_bytes(whole.replace(b"0.5", b"0.7") if how == "edited" else b"")
    frames = Store(home.store_uri(), home).load(file)
    assert frames.changed and set(frames.changed.values()) == {"its tables differ from the imported ones"}
    restore_runs(home, home.store_uri(), frames.changed)
    assert not Store(home.store_uri(), home).load(file).changed and path.read_bytes() == whole


def test_times_may_differ_between_executions(filled):
    home, file = filled
    sql(home, "UPDATE metrics SET value = 99 WHERE key = 'time/step'")
    assert not Store(home.store_uri(), home).load(file).changed


@pytest.mark.parametrize("rows", ["runs", "tags", "digests"])
def test_rows_of_a_run_that_were_deleted_are_imported_again(filled, rows):
    home, file = filled
    uri, expected, before = home.store_uri(), Store(home.store_uri(), home).load(file), dump(home.store_uri())
    if rows == "digests":
        sql(home, f"DELETE FROM tags WHERE key = '{TAG}' AND {OF_RUN}")
    else:
        sql(home, f"DELETE FROM {rows} WHERE {OF_RUN}")
    report = import_runs(home, uri, [file])
    assert report.imported == [file.runs[0].id] and report.unchanged == 1
    frames = Store(uri, home).load(file)
    assert (
        not frames.changed
        and frames.metrics.equals(expected.metrics)
        and list(frames.runs.run_id) == list(expected.runs.run_id)
    )
    assert dump(uri) == before


def test_a_run_whose_directory_is_not_here_is_left_as_it_is(filled):
    home, file = filled
    shutil.rmtree(home.run(file.runs[0].id).root)
    sql(home, CHANGES["a value"])
    restore_runs(home, home.store_uri(), [file.runs[0].id])
    assert list(Store(home.store_uri(), home).load(file).changed) == [file.runs[0].id]


def test_a_store_of_an_earlier_plat_is_read_and_brought_up_to_date(filled):
    home, file = filled
    sql(home, "DELETE FROM tags WHERE key LIKE 'plat.digest%'")
    assert not Store(home.store_uri(), home).load(file).changed
    assert len(import_runs(home, home.store_uri()).imported) == 2
    assert import_runs(home, home.store_uri()).unchanged == 2
    sql(home, CHANGES["a value"])
    assert Store(home.store_uri(), home).load(file).changed


def test_a_damaged_directory_never_replaces_what_the_store_has(filled):
    home, file = filled
    paths = home.run(file.runs[0].id)
    expected = Store(home.store_uri(), home).load(file)
    paths.result.write_text("{")
    assert list(import_runs(home, home.store_uri()).damaged) == [paths.id]
    frames = Store(home.store_uri(), home).load(file)
    assert not frames.changed and frames.metrics.equals(expected.metrics)
    restore_runs(home, home.store_uri(), [paths.id])
    assert Store(home.store_uri(), home).load(file).metrics.equals(expected.metrics)


def test_the_client_reads_what_the_digest_says(filled, monkeypatch):
    """Both readers give the numbers of which the importer made the digest, infinities and NaN among them."""
    home, file = filled
    monkeypatch.setattr("plat.store.mlflow.frames.open_reader", ClientReader)
    assert not Store(home.store_uri(), home).load(file).changed
    sql(home, CHANGES["a value"])
    assert list(Store(home.store_uri(), home).load(file).changed) == [file.runs[0].id]


def record(points, **tags):
    return RunRecord("r", "r", "e", [], "x", "FINISHED", 0, 1, {}, {"plat.id": "r", **tags}, points)


def as_read(points):
    keys = sorted({point.key for point in points})
    ordered = [sorted(point for point in points if point.key == key) for key in keys]
    rows = [point for own in ordered for point in own]
    steps, values = np.array([row.step for row in rows], np.int64), np.array([row.value for row in rows], np.float64)
    return Series(keys, [len(own) for own in ordered], steps, values)


VALUES = st.sampled_from([0.0, -0.0, 1.0, math.nan, math.inf, -math.inf]) | st.floats(allow_nan=False, width=32)
LOGGED = st.dictionaries(
    st.tuples(st.sampled_from(["a", "mem/peak", "n", "time/step", "z/é"]), st.integers(0, 9)), VALUES, max_size=20
)


@given(logged=LOGGED, at=st.integers(0, 99), other=VALUES)
def test_every_change_of_a_value_that_counts_is_noticed(logged, at, other):
    points = sorted(
        (Point(key, step, value, 0) for (key, step), value in logged.items()), key=lambda point: (point.step, point.key)
    )
    stored = Digest(digest_tags(record(points)))
    assert stored.problem_of_metrics(as_read(points)) == ""
    if not points:
        return
    changed = points[at % len(points)]._replace(value=other)
    same = repr(changed.value + 0.0) == repr(points[at % len(points)].value + 0.0)
    edited = [*points]
    edited[at % len(points)] = changed
    counts = not changed.key.startswith(("time/", "mem/"))
    assert bool(stored.problem_of_metrics(as_read(edited))) == (counts and not same)
    fewer = [point for point in points if point is not points[at % len(points)]]
    assert bool(stored.problem_of_metrics(as_read(fewer))) == counts


def test_a_long_digest_goes_on_in_further_tags(monkeypatch):
    points = [Point(f"metric/{number}", 0, float(number), 0) for number in range(1000)]
    tags = digest_tags(record(points))
    assert len(tags) == 4 and max(map(len, tags.values())) <= 5000
    assert Digest(tags).problem_of_metrics(as_read(points)) == ""
    assert Digest(tags).problem_of_metrics(as_read(points[:-1])) != ""


def test_metrics_whose_names_look_alike_are_not_taken_for_changed(monkeypatch):
    monkeypatch.setattr(digests, "_of_name", lambda key: "00000000")
    digests._covered_parts.cache_clear()
    points = [Point(key, 0, 1.0, 0) for key in ("a", "b")]
    stored = Digest(digest_tags(record(points)))
    assert stored.problem_of_metrics(as_read(points)) == ""
