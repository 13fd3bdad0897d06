"""What is exported comes back as it was, on any machine, and nothing private with it."""

from __future__ import annotations

import json
import math
import os

import pyarrow as pa
from bundle_files import contents
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyarrow import parquet
from store_dump import dump

from plat.store.bundle import writing
from plat.store.bundle.bundle_frames import runs_of
from plat.store.bundle.bundle_importer import import_bundle
from plat.store.bundle.exporter import export_bundle
from plat.store.bundle.format import Bundle, schema
from plat.store.bundle.reading import read_bundle
from plat.store.bundle.writing import write_bundle
from plat.store.disk.durable import read_json, to_checked_json
from plat.store.home import Home
from plat.store.measured import ARTIFACT
from plat.store.mlflow.frames import Store
from plat.store.run_directory.history import run_history
from plat.store.run_directory.spool import SpoolWriter
from plat.store.run_directory.state import run_state


def test_a_store_made_from_a_bundle_holds_the_same(exported, make_home, recipes):
    home, file, folder, report = exported
    assert (report.done, report.failed) == (3, 1)
    assert report.left_out == {"run-00040000": "interrupted"}
    other = make_home("other")
    done = import_bundle(other, other.store_uri(), folder, curves=True)
    assert done.new == [item.id for item in recipes[:4]] and not done.stored.warnings()
    states = [run_state(other.run(item.id)) for item in recipes]
    assert [state.state for state in states] == ["done", "done", "done", "failed", "missing"]
    assert states[3].outcome == "failed:oom"

    own, imported = dump(home.store_uri()), dump(other.store_uri())
    for name in ("run-00040000", "run-00030000"):  # one was not exported, the other without its history
        for content in (own, imported):
            for runs in content.values():
                for run_id in [run_id for run_id, run in runs.items() if run["name"] == name]:
                    del runs[run_id]
    for content in (own, imported):
        for run in [run for runs in content.values() for run in runs.values()]:
            run["artifacts"].pop("code.diff", None)
            if ARTIFACT in run["artifacts"]:
                run["artifacts"][ARTIFACT] = run["artifacts"][ARTIFACT][:2]  # the values: the tags have hosts
            run["tags"] = {
                key: run["tags"][key] for key in run["tags"] if key.startswith(("plat.axis", "plat.summary"))
            }
            run.pop("status")
    assert imported == own

    frames = Store(other.store_uri(), other).load(file)
    assert list(frames.runs["outcome"]) == ["finished", "finished", "stopped:low_success", "failed:oom"]
    values = frames.metrics[
        (frames.metrics.run_id == recipes[0].id) & (frames.metrics.key == "mi/first_turn/mi_zscore")
    ]
    assert math.inf in list(values["value"]) and values["value"].isna().sum() == 1


def test_the_same_content_gives_the_same_bytes(exported, make_home, tmp_path):
    """Exported twice, exported over an earlier bundle, and exported from a home that was made from the bundle."""
    home, file, folder, _ = exported
    first = contents(folder)
    export_bundle(home, [file], folder, overrides=["scale=smoke"])
    assert contents(folder) == first
    other = make_home("other")
    import_bundle(other, other.store_uri(), folder)
    export_bundle(other, [file], tmp_path / "again", overrides=["scale=smoke"])
    assert contents(tmp_path / "again") == first


def test_importing_again_changes_nothing(exported, make_home):
    _, _, folder, _ = exported
    other = make_home("other")
    import_bundle(other, other.store_uri(), folder)
    before = contents(other.runs)
    done = import_bundle(other, other.store_uri(), folder)
    assert (done.new, done.present) == ([], 4) and done.stored.unchanged == 4
    assert contents(other.runs) == before
    assert not list(other.root.glob(".tmp*"))


def test_bundles_that_share_runs_are_merged(exported, make_home, on_disk, recipes, tmp_path):
    """Of a run in both, every file that asked for it is known; the rest is added."""
    home, _, folder, _ = exported
    extra = recipes[1]
    file = on_disk("mine", [extra])
    meta = home.run(extra.id).meta
    meta.write_bytes(to_checked_json(read_json(meta) | {"experiments": ["mine"]}))
    export_bundle(home, [file], tmp_path / "second")
    other = make_home("other")
    assert len(import_bundle(other, other.store_uri(), tmp_path / "second").new) == 1
    assert len(import_bundle(other, other.store_uri(), folder).new) == 3
    asked = json.loads(other.run(extra.id).meta.read_text())["experiments"]
    assert asked == ["mine", "other", "table4"]
    assert len(Store(other.store_uri(), other).load("mine").runs) == 1


def test_nothing_private_travels(exported, tmp_path):
    """Host names, process ids, the text of uncommitted changes and names of untracked files stay; the hash travels."""
    home, file, folder, _ = exported
    row = parquet.read_table(folder / "runs-0001.parquet").to_pylist()[0]
    paths = home.run(row["run_id"])
    facts = {"attempt": 2, "host": "my-laptop", "pid": 4711, "boot_id": "b00t", "hardware": "A CPU"}
    paths.attempt(2).meta.write_bytes(to_checked_json({"run": paths.id, **facts, "facts": {"base_sha256": "ba5e"}}))
    paths.code.write_text("commit: abc123\nuntracked: diary.txt\ntorch==2.13.0\n")
    export_bundle(home, [file], folder)
    row = parquet.read_table(folder / "runs-0001.parquet").to_pylist()[0]
    assert row["diff"] is None and len(row["code_diff_sha256"]) == 64 and row["base_sha256"] == "ba5e"
    assert json.loads(row["versions"]) == {"torch": "2.13.0"} and row["code_commit"] == "abc123"
    assert "A CPU" in row["attempt_meta"]
    for word in ("my-laptop", "4711", "b00t", "diff --git", "diary"):
        assert word not in json.dumps(row)


def test_shards_are_small_and_hold_every_row(tmp_path, monkeypatch):
    """Rows keep their order over shards; a row that is larger than a shard has one of its own."""
    monkeypatch.setattr(writing, "SHARD_BYTES", 20_000)
    texts = [os.urandom(200).hex() for _ in range(300)]
    texts[7] = os.urandom(30_000).hex()
    columns = {"run_id": ["r"] * 300, "name": texts, "step": [*range(300)], "time": [0.0] * 300, "data": ["1"] * 300}
    tables = {kind: schema(kind).empty_table() for kind in ("runs", "metrics")}
    tables["tables"] = pa.table(columns, schema=schema("tables"))
    write_bundle(Bundle(tables), tmp_path / "bundle")
    sizes = [path.stat().st_size for path in (tmp_path / "bundle").glob("tables-*.parquet")]
    assert sum(size >= 20_000 for size in sizes) == 1 and len(sizes) > 5
    assert read_bundle(tmp_path / "bundle").tables["tables"].column("name").to_pylist() == texts


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    values=st.lists(st.floats(allow_nan=True, allow_infinity=True), min_size=1, max_size=6),
    data=st.recursive(
        st.none() | st.booleans() | st.integers(-(2**40), 2**40) | st.floats(allow_nan=False) | st.text(),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
        max_leaves=8,
    ),
)
def test_every_value_comes_back_as_it_was(tmp_path_factory, recipe, on_disk, values, data):
    """Any float, and any table, through run directory, bundle and run directory."""
    root = tmp_path_factory.mktemp("law")
    home, single = Home(root / "home").create(), recipe(1)
    paths = single.write(home)
    spool = SpoolWriter(paths.attempt(1).events, paths.id)
    for step, value in enumerate(values, start=9):
        spool.append(step, {"my/value": value})
    spool.table("mine", 100, data)
    spool.close()
    changes = {paths.result: {"step": 100, "events": {"1": spool.count}}, paths.attempt(1).outcome: {"step": 100}}
    for file, change in changes.items():
        file.write_bytes(to_checked_json(read_json(file) | change))
    file = on_disk("table4", [single])
    export_bundle(home, [file], root / "bundle")
    (run,) = runs_of(read_bundle(root / "bundle"), root)
    metrics, tables = run_history(paths)
    assert sorted(map(repr, run.metrics)) == sorted(map(repr, metrics))
    assert sorted(map(repr, run.tables)) == sorted(map(repr, tables))
