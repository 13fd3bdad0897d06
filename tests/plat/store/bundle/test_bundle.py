"""Bundles: what travels, that nothing is imported by halves, and every way in which one can be wrong."""

from __future__ import annotations

import dataclasses
import json
import math
import os
import resource
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyarrow import parquet

from plat.errors import BundleError, HomeError, StoreError
from plat.spec.experiment import build_run, load_experiment
from plat.store.bundle import writing
from plat.store.bundle.exporter import export_bundle
from plat.store.bundle.format import Bundle, schema
from plat.store.bundle.importer import import_bundle
from plat.store.bundle.reading import read_bundle
from plat.store.bundle.rows import runs_of
from plat.store.bundle.staging import SCRATCH
from plat.store.bundle.writing import write_bundle
from plat.store.home import Home
from plat.store.mlflow.client import mlflow_client
from plat.store.mlflow.dump import dump
from plat.store.mlflow.frames import Store
from plat.store.mlflow.importer import import_runs
from plat.store.mlflow.record import read_record
from plat.store.run_directory.attempts import record_failure
from plat.store.run_directory.creation import create
from plat.store.run_directory.files import config_hash, to_yaml
from plat.store.run_directory.history import run_history
from plat.store.run_directory.spool import SpoolWriter
from plat.store.run_directory.state import run_state


@pytest.fixture
def recipes(recipe):
    """Five runs: killed and resumed, of two files, stopped early, failed, and one that still runs."""
    return [
        recipe(0, kills=[(6, 4)]),
        recipe(1, files=["other", "table4"]),
        recipe(2, outcome="stopped:low_success"),
        recipe(3, outcome="failed:oom"),
        recipe(4, outcome=None, steps=4),
    ]


@pytest.fixture
def on_disk(experiment, tmp_path):
    """on_disk(name, recipes) -> the experiment file of these runs, written to disk."""

    def make(name, recipes):
        path = tmp_path / f"{name}.yaml"
        path.write_text(f"title: {name}\n")
        return dataclasses.replace(experiment(name, recipes, paper=None), path=path)

    return make


@pytest.fixture
def exported(home, recipes, on_disk, tmp_path):
    """(home, experiment file, bundle folder, what the export said)."""
    for item in recipes:
        item.write(home)
    file = on_disk("table4", recipes)
    import_runs(home, home.store_uri(), [file])
    report = export_bundle(home, [file], tmp_path / "bundle", overrides=["scale=smoke"])
    return home, file, tmp_path / "bundle", report


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


# -- there and back ---------------------------------------------------------------------------------------------------


def test_a_store_made_from_a_bundle_holds_the_same(exported, make_home, recipes):
    home, file, folder, report = exported
    assert (report.done, report.failed) == (3, 1)
    assert report.left_out == {"run-00040000": "interrupted"}
    other = make_home("other")
    done = import_bundle(other, other.store_uri(), folder)
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
    meta = json.loads(home.run(extra.id).meta.read_text())
    home.run(extra.id).meta.write_text(json.dumps(meta | {"experiments": ["mine"]}))
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
    facts = {"attempt": 2, "host": "my-laptop", "pid": 4711, "boot_id": "b00t", "hardware": "A CPU", "facts": {}}
    paths.attempt(2).meta.write_text(json.dumps(facts | {"facts": {"base_sha256": "ba5e"}}))
    paths.code.write_text("commit: abc123\nuntracked: diary.txt\ntorch==2.13.0\n")
    export_bundle(home, [file], folder)
    row = parquet.read_table(folder / "runs-0001.parquet").to_pylist()[0]
    assert row["diff"] is None and len(row["code_diff_sha256"]) == 64 and row["base_sha256"] == "ba5e"
    assert json.loads(row["versions"]) == {"torch": "2.13.0"} and row["code_commit"] == "abc123"
    assert "A CPU" in row["attempt_meta"]
    for word in ("my-laptop", "4711", "b00t", "diff --git", "diary"):
        assert word not in json.dumps(row)
    export_bundle(home, [file], folder, with_diff=True)
    assert "diff --git" in parquet.read_table(folder / "runs-0001.parquet").to_pylist()[0]["diff"]


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
    spool = SpoolWriter(paths.attempt(1).events)
    for step, value in enumerate(values, start=9):
        spool.append(step, {"my/value": value})
    spool.table("mine", 100, data)
    spool.close()
    result = json.loads(paths.result.read_text())
    paths.result.write_text(json.dumps(result | {"step": 100}))
    outcome = json.loads(paths.attempt(1).outcome.read_text())
    paths.attempt(1).outcome.write_text(json.dumps({key: outcome[key] for key in outcome if key != "events"}))
    file = on_disk("table4", [single])
    export_bundle(home, [file], root / "bundle")
    (run,) = runs_of(read_bundle(root / "bundle"), root)
    metrics, tables = run_history(paths)
    assert sorted(map(repr, run.metrics)) == sorted(map(repr, metrics))
    assert sorted(map(repr, run.tables)) == sorted(map(repr, tables))


# -- refusals ---------------------------------------------------------------------------------------------------------


def refused(home, folder, match):
    """The bundle is refused with this message, and the home has no run and no scratch folder of it."""
    before = contents(home.runs)
    with pytest.raises(BundleError, match=match) as error:
        import_bundle(home, home.store_uri(), folder)
    assert error.value.mend and error.value.where
    assert contents(home.runs) == before and not list(home.root.glob(".tmp*"))
    return error.value.render()


def _truncate(folder):
    path = folder / "metrics-0001.parquet"
    path.write_bytes(path.read_bytes()[:-10])


def _flip(folder):
    path = folder / "metrics-0001.parquet"
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


def _edit_manifest(**changes):
    def edit(folder):
        manifest = json.loads((folder / "manifest.json").read_text())
        (folder / "manifest.json").write_text(json.dumps(manifest | changes))

    return edit


DAMAGES = {
    "bytes instead of": _truncate,
    "checksum": _flip,
    "missing": lambda folder: (folder / "tables-0001.parquet").unlink(),
    "newer plat": _edit_manifest(plat_bundle=99),
    "manifest is damaged at 'files'": _edit_manifest(files=[]),
    "manifest is damaged at '../../etc/passwd'": _edit_manifest(files={"../../etc/passwd": {}}),
    "has no file with runs": _edit_manifest(files={}),
    "manifest names 7": _edit_manifest(runs=7),
    "manifest cannot be read": lambda folder: (folder / "manifest.json").write_text('{"plat_bundle": 1'),
    "not a bundle": lambda folder: (folder / "manifest.json").unlink(),
    "no such bundle": shutil.rmtree,
    "this is a file": lambda folder: (shutil.rmtree(folder), folder.write_text("x")),
    "manifest is damaged: there is no format -1": _edit_manifest(plat_bundle=-1),
    "manifest cannot be read ": lambda folder: _edit_manifest(plat_bundle=True)(folder),
    " manifest cannot be read": lambda folder: _edit_manifest(plat_bundle="1")(folder),
    "manifest is damaged at 'experiments'": _edit_manifest(experiments=[7]),
    "manifest is damaged at 'experiments' ": _edit_manifest(
        experiments=[{"name": "a", "title": "\x1b[2J", "runs": []}]
    ),
    "manifest is damaged at 'overrides'": _edit_manifest(overrides=[{}]),
    "manifest is damaged at 'runs'": _edit_manifest(runs=True),
    r"manifest is damaged at 'experiments/.x1b": _edit_manifest(files={"experiments/\x1b[2J.yaml": {}}),
    "not a regular file": lambda folder: (
        (folder / "runs-0001.parquet").unlink(),
        (folder / "runs-0001.parquet").mkdir(),
    ),
}


@pytest.mark.parametrize("message", DAMAGES)
def test_a_bundle_that_is_wrong_is_refused_as_a_whole(exported, make_home, message):
    _, _, folder, _ = exported
    DAMAGES[message](folder)
    refused(make_home("other"), folder, message.strip())


def _rewrite_runs(folder, change):
    """A bundle whose runs were changed and whose manifest fits."""
    bundle = read_bundle(folder)
    rows = bundle.tables["runs"].to_pylist()
    change(rows)
    bundle.tables["runs"] = pa.Table.from_pylist(rows, schema=schema("runs"))
    write_bundle(bundle, folder)


@pytest.mark.parametrize("key", ["meta", "result", "attempt_meta", "run_id", "config"])
def test_a_row_that_is_no_run_is_named(exported, make_home, key):
    _, _, folder, _ = exported
    _rewrite_runs(folder, lambda rows: rows[0].update({key: "../../x" if key == "run_id" else "[1"}))
    refused(make_home("other"), folder, "of the bundle cannot be read")


BAD_VALUES = [
    *[("meta", "axes", value) for value in (7, None, "zz", [1])],
    *[("meta", "experiments", value) for value in (5, None, [{}], [1])],
    *[("meta", "code", value) for value in (7, {"versions": 3}, {"plug_ins": [{}]})],
    *[("meta", key, 7) for key in ("scale", "paper", "name", "trainer", "config_sha256", "headline")],
    ("meta", "created", "yesterday"),
    *[("result", "time", value) for value in (math.inf, None, "zz", -3, 1e300)],
    *[("result", "success", value) for value in ("zz", [1], math.inf)],
    *[("result", "attempt", value) for value in (None, -1, 7)],
    *[("result", "outcome", value) for value in (None, "zz", "failed:oom")],
    *[("attempt_outcome", key, "zz") for key in ("time", "step", "success")],
    ("attempt_outcome", "outcome", None),
    ("attempt_meta", "facts", [1]),
]


def test_values_of_wrong_types_are_refused_before_anything_is_moved(exported, make_home):
    _, _, folder, _ = exported
    original, other = read_bundle(folder).tables["runs"].to_pylist(), make_home("other")
    for column, key, value in BAD_VALUES:
        text = json.dumps(json.loads(original[0][column]) | {key: value})
        _rewrite_runs(folder, lambda rows, change={column: text}: rows.__setitem__(0, original[0] | change))
        refused(other, folder, "of the bundle (cannot be read|is damaged)")


@pytest.mark.parametrize("value", [None, 0, -1, 10**6])
def test_an_attempt_without_a_proper_number_is_refused(exported, make_home, value):
    _, _, folder, _ = exported
    _rewrite_runs(folder, lambda rows: rows[0].update(attempt=value))
    refused(make_home("other"), folder, "of the bundle cannot be read")


def test_a_run_that_is_there_twice_is_refused(exported, make_home):
    _, _, folder, _ = exported
    _rewrite_runs(folder, lambda rows: rows.append(rows[0]))
    refused(make_home("other"), folder, "it is there twice")


def test_a_config_without_its_hash_is_refused(exported, make_home):
    _, _, folder, _ = exported

    def change(rows):
        meta = json.loads(rows[0]["meta"])
        del meta["config_sha256"]
        rows[0]["meta"] = json.dumps(meta)

    _rewrite_runs(folder, change)
    refused(make_home("other"), folder, "it has no config_sha256")


@pytest.mark.parametrize("change", [{"name": "\x1b[2J"}, {"experiments": ["a\nb"]}, {"axes": {"seed": "\u202e"}}])
def test_names_that_would_play_with_a_terminal_are_refused(exported, make_home, change):
    _, _, folder, _ = exported
    _edit_meta(folder, **change)
    assert "\x1b" not in refused(make_home("other"), folder, "is no name")


def _edit_meta(folder, **changes):
    def edit(rows):
        rows[0]["meta"] = json.dumps(json.loads(rows[0]["meta"]) | changes)

    _rewrite_runs(folder, edit)


@pytest.fixture
def real_bundle(make_home, tmp_path):
    """A bundle of one run with an id that plat gave it, which failed at once."""
    run = build_run(["task=sokoban", "filter=top_p", "scale=smoke"])
    home = make_home("real")
    paths = create(home, run, "small")
    record_failure(paths, "failed:oom", "too large", "")
    path = tmp_path / "small.yaml"
    path.write_text("title: small\nbase: {task: sokoban, filter: top_p, scale: smoke}\nmatrix: {seed: [0]}\n")
    experiment = load_experiment(path)
    assert [made.id for made in experiment.runs] == [run.id]
    export_bundle(home, [experiment], tmp_path / "bundle")
    return tmp_path / "bundle"


def test_what_an_id_stands_for_is_recorded_and_travels(real_bundle, make_home):
    other = make_home("other")
    assert len(import_bundle(other, other.store_uri(), real_bundle).new) == 1


@pytest.mark.parametrize(
    "edit",
    [
        lambda meta, config: config["train"].update(lr=0.5),
        lambda meta, config: config["task"]["env"].clear(),
        lambda meta, config: config.update(more=1),
        lambda meta, config: meta["identity"].update(plugins=[["task.name", "7"]]),
        lambda meta, config: meta["identity"].update(left_out=["train.lr"]),
        lambda meta, config: meta.update(trainer_version="9.9"),
        lambda meta, config: meta["fingerprint"].update(base="another"),
    ],
)
def test_a_run_edited_together_with_its_hash_is_refused(real_bundle, make_home, edit):
    def change(rows):
        meta, config = json.loads(rows[0]["meta"]), yaml.safe_load(rows[0]["config"])
        edit(meta, config)
        rows[0] |= {"config": to_yaml(config), "meta": json.dumps(meta | {"config_sha256": config_hash(config)})}

    _rewrite_runs(real_bundle, change)
    refused(make_home("other"), real_bundle, "are not those that its id stands for: it was edited")


@pytest.mark.parametrize("change", [{"identity": None}, {"identity_scheme": 1}])
def test_runs_that_do_not_record_what_their_id_stands_for_are_accepted(real_bundle, make_home, change):
    """Runs of plat 0.2.0, and of another scheme of ids."""

    def edit(rows):
        meta = json.loads(rows[0]["meta"]) | change
        rows[0]["meta"] = json.dumps({key: value for key, value in meta.items() if value is not None})

    _rewrite_runs(real_bundle, edit)
    other = make_home("other")
    assert len(import_bundle(other, other.store_uri(), real_bundle).new) == 1


@pytest.mark.parametrize("value", [7, {}, {"trainer": "t"}, {"trainer": "t", "plugins": [7], "left_out": []}])
def test_a_damaged_record_of_an_identity_is_named(real_bundle, make_home, value):
    _edit_meta(real_bundle, identity=value)
    refused(make_home("other"), real_bundle, "its identity is not what the id was hashed from")


ROWS = {
    "is missing": lambda rows: rows[0].update(step=None),
    "has no time": lambda rows: rows[0].update(time=math.inf),
    "two values for one name and step": lambda rows: rows.append(rows[0]),
    "values of a run that it does not have": lambda rows: rows.append(rows[0] | {"run_id": "f" * 16}),
    "rows of (metric|table)s instead of": lambda rows: rows.pop(),
}


@pytest.mark.parametrize("kind", ["metrics", "tables"])
@pytest.mark.parametrize("message", ROWS)
def test_rows_that_are_not_those_of_a_run_are_refused(exported, make_home, kind, message):
    _, _, folder, _ = exported
    bundle = read_bundle(folder)
    rows = bundle.tables[kind].to_pylist()
    ROWS[message](rows)
    bundle.tables[kind] = pa.Table.from_pylist(rows, schema=schema(kind))
    write_bundle(bundle, folder)
    refused(make_home("other"), folder, message)


def test_a_table_that_is_not_json_is_refused(exported, make_home):
    _, _, folder, _ = exported
    bundle = read_bundle(folder)
    rows = bundle.tables["tables"].to_pylist()
    rows[0]["data"] = "{bad"
    bundle.tables["tables"] = pa.Table.from_pylist(rows, schema=schema("tables"))
    write_bundle(bundle, folder)
    refused(make_home("other"), folder, "the tables of the bundle cannot be read")


def test_infinite_sizes_and_larger_files_are_refused(exported, make_home):
    _, _, folder, _ = exported
    text, other = (folder / "manifest.json").read_text(), make_home("other")
    _edit_manifest(plat_bundle=math.inf)(folder)
    refused(other, folder, "manifest cannot be read")
    manifest = json.loads(text)
    manifest["files"]["runs-0001.parquet"]["bytes"] = math.inf
    (folder / "manifest.json").write_text(json.dumps(manifest))
    refused(other, folder, "manifest is damaged at 'runs-0001.parquet'")
    (folder / "manifest.json").write_text(text)
    os.truncate(folder / "runs-0001.parquet", 1 << 40)  # sparse: reading it would fill the memory
    refused(other, folder, "bytes instead of")


def test_the_missing_end_of_imported_events_is_noticed(exported, make_home, recipes):
    _, _, folder, _ = exported
    other = make_home("other")
    import_bundle(other, other.store_uri(), folder)
    paths = other.run(recipes[1].id)
    events = paths.attempts()[-1].events
    events.write_bytes(b"".join(events.read_bytes().splitlines(keepends=True)[:-1]))
    record = read_record(paths)
    assert record is not None and "lacks event" in record.damage


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
    result = json.loads(paths.result.read_text())
    paths.result.write_text(json.dumps(result | {"outcome": "stopped:low_success", "summary": {"base_sha256": "ba5e"}}))
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


# -- exporting --------------------------------------------------------------------------------------------------------


def test_what_cannot_travel_is_named(exported, recipe, tmp_path):
    home, file, _, _ = exported
    home.run(recipe(0).id).config.write_text("a: [")
    events = home.run(recipe(1).id).attempt(1).events
    events.write_text(events.read_text().replace('"step"', '"stop"', 1))
    report = export_bundle(home, [file], tmp_path / "second")
    assert report.done == 1 and set(report.left_out) == {"run-00000000", "run-00010000", "run-00040000"}
    assert "config" in report.left_out["run-00000000"] and "damaged" in report.left_out["run-00010000"]


def test_nothing_to_export(home, experiment, recipe, tmp_path):
    with pytest.raises(BundleError, match="nothing to export"):
        export_bundle(home, [experiment("table4", [recipe(1)])], tmp_path / "bundle")
    assert not (tmp_path / "bundle").exists()


def test_what_is_in_the_way_stays(exported, tmp_path):
    home, file, folder, _ = exported
    before = contents(folder)
    (folder / "notes.txt").write_text("mine")
    with pytest.raises(BundleError, match=r"not its own: notes.txt"):
        export_bundle(home, [file], folder)
    assert contents(folder) == before | {"notes.txt": b"mine"}
    (tmp_path / "file").write_text("mine")
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "thesis.tex").write_text("mine")
    (tmp_path / "link").symlink_to(tmp_path / "folder")
    for name in ("file", "folder", "link"):
        with pytest.raises(BundleError, match="in the way"):
            export_bundle(home, [file], tmp_path / name)
    with pytest.raises(BundleError, match="could not be written"):
        export_bundle(home, [file], tmp_path / "file" / "below")
    assert (tmp_path / "folder" / "thesis.tex").read_text() == "mine"


def _on_a_full_disk(limit, function):
    """Call it in a child process in which no file can grow beyond `limit` bytes; 7 when it says what happened."""
    child = os.fork()
    if child == 0:
        code = 9
        try:
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
            function()
            code = 0
        except (BundleError, HomeError) as error:
            code = 7 if "could not be written" in error.what else 8
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def test_a_full_disk_leaves_the_earlier_bundle(exported):
    home, file, folder, _ = exported
    before = contents(folder)
    assert _on_a_full_disk(4000, lambda: export_bundle(home, [file], folder)) == 7
    assert contents(folder) == before and not list(folder.parent.glob(".tmp*"))


def test_a_full_disk_imports_nothing(exported, make_home, recipe, on_disk, tmp_path):
    home, _, _, _ = exported
    long = recipe(9, steps=400)
    long.write(home)
    export_bundle(home, [on_disk("long", [recipe(1), long])], tmp_path / "second")
    other = make_home("other")
    uri = other.store_uri()
    assert _on_a_full_disk(50_000, lambda: import_bundle(other, uri, tmp_path / "second")) == 7
    assert not contents(other.runs) and not (other.root / SCRATCH).exists()
    assert len(import_bundle(other, uri, tmp_path / "second").new) == 2


KILLED = """
import os, sys
from pathlib import Path
from plat.store.bundle import importer as bundle_import
from plat.store.home import Home
moves, real = int(sys.argv[3]), bundle_import.put_in_place
def move(staged, target):
    global moves
    if moves == 0:
        os.kill(os.getpid(), 9)
    moves -= 1
    real(staged, target)
bundle_import.put_in_place = move
home = Home(Path(sys.argv[1]))
bundle_import.import_bundle(home, home.store_uri(), Path(sys.argv[2]))
"""


def test_a_kill_leaves_whole_runs_and_the_same_command_brings_the_rest(exported, make_home, recipes):
    _, _, folder, _ = exported
    other = make_home("other")
    done = subprocess.run([sys.executable, "-c", KILLED, other.root, folder, "2"], capture_output=True, text=True)
    assert done.returncode == -signal.SIGKILL, done.stderr
    states = [run_state(other.run(item.id)).state for item in recipes[:4]]
    assert states == ["done", "done", "missing", "missing"]
    assert len(import_bundle(other, other.store_uri(), folder).new) == 2
    assert not list(other.root.glob(".tmp*"))
