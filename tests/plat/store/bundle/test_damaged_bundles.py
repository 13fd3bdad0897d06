"""A bundle that is damaged, edited or of wrong types is refused as a whole."""

from __future__ import annotations

import hashlib
import json
import math
import os
import shutil

import numpy
import pyarrow as pa
import pytest
import yaml
from bundle_files import refused
from pyarrow import parquet

from plat.spec.expansion.experiment import build_run, load_experiment
from plat.store.bundle.bundle_importer import import_bundle
from plat.store.bundle.exporter import export_bundle
from plat.store.bundle.format import schema
from plat.store.bundle.reading import read_bundle
from plat.store.bundle.writing import write_bundle
from plat.store.mlflow.run_record import read_record
from plat.store.run_directory.attempts import record_failure
from plat.store.run_directory.config_text import to_yaml
from plat.store.run_directory.creation import create
from plat.store.run_directory.run_files import config_hash


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
    refused(make_home("other"), real_bundle, "its id does not match its config, versions and base model: it was edited")


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
    "values of a run that is not among its runs": lambda rows: rows.append(rows[0] | {"run_id": "f" * 16}),
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


@pytest.mark.parametrize("bomb", ["a long text", "a text that many rows share", "many rows"])
def test_a_small_file_that_unpacks_to_gigabytes_is_refused_before_it_is_unpacked(exported, make_home, bomb):
    _, _, folder, _ = exported
    rows = {"a long text": 1, "a text that many rows share": 200_000, "many rows": 10_000_000}[bomb]
    text = "x" * {"a long text": 200_000_000, "a text that many rows share": 1_000_000, "many rows": 1}[bomb]
    data = pa.DictionaryArray.from_arrays(pa.array([0] * rows, pa.int32()), pa.array([text]))
    names = pa.DictionaryArray.from_arrays(pa.array([0] * rows, pa.int32()), pa.array(["r"]))
    zeros = pa.array(numpy.zeros(rows, dtype=numpy.int64))
    columns = {"run_id": names, "name": names, "step": zeros, "time": zeros.cast(pa.float64()), "data": data}
    path = folder / "tables-0001.parquet"
    parquet.write_table(pa.table(columns), path, compression="zstd")
    manifest = json.loads((folder / "manifest.json").read_text())
    content = path.read_bytes()
    manifest["files"][path.name] = {"bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}
    (folder / "manifest.json").write_text(json.dumps(manifest))
    assert len(content) < 1 << 20
    refused(make_home("other"), folder, "when it is unpacked")


def test_the_missing_end_of_imported_events_is_noticed(exported, make_home, recipes):
    _, _, folder, _ = exported
    other = make_home("other")
    import_bundle(other, other.store_uri(), folder)
    paths = other.run(recipes[1].id)
    events = paths.attempts()[-1].events
    events.write_bytes(b"".join(events.read_bytes().splitlines(keepends=True)[:-1]))
    record = read_record(paths)
    assert record is not None and "lacks event" in str(record.damage)
