"""Bundles that somebody made to do harm, or that a disk or a program has spoilt, each from a good one."""

from __future__ import annotations

import hashlib
import json
import math
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyarrow import parquet
from yaml_bombs import BOMB, MERGED

from plat.store.bundle.format import schema
from plat.store.bundle.reading import read_bundle
from plat.store.bundle.writing import write_bundle
from plat.store.run_directory.run_files import config_hash

Change = Callable[[Path], object]
Row = dict[str, Any]
DEEP = "[" * 100_000


# -- files ------------------------------------------------------------------------------------------------------------


def raw(name: str, data: bytes) -> Change:
    return lambda folder: (folder / name).write_bytes(data)


def cut(name: str, kept: int) -> Change:
    return lambda folder: (folder / name).write_bytes((folder / name).read_bytes()[:kept])


def instead(name: str, make: Callable[[Path], object]) -> Change:
    """Something else under a file's name."""

    def change(folder: Path) -> None:
        (folder / name).unlink()
        make(folder / name)

    return change


def fitting(name: str, data: bytes) -> Change:
    """Other bytes in a file, and the manifest with their size and hash."""

    def change(folder: Path) -> None:
        (folder / name).write_bytes(data)
        facts = {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}
        manifest(lambda content: content["files"].update({name: facts}))(folder)

    return change


def fitting_table(kind: str, table: pa.Table) -> Change:
    sink = pa.BufferOutputStream()
    parquet.write_table(table, sink)
    return fitting(f"{kind}-0001.parquet", sink.getvalue().to_pybytes())


def manifest(edit: Callable[[dict[str, Any]], object]) -> Change:
    def change(folder: Path) -> None:
        content = json.loads((folder / "manifest.json").read_text())
        edit(content)
        (folder / "manifest.json").write_text(json.dumps(content))

    return change


def named(name: str) -> Change:
    """A file of the bundle that the manifest has under another name."""
    return manifest(lambda content: content["files"].update({name: content["files"].pop("metrics-0001.parquet")}))


# -- rows, with hashes that fit ---------------------------------------------------------------------------------------


def rows(kind: str, edit: Callable[[list[Row]], object]) -> Change:
    def change(folder: Path) -> None:
        bundle = read_bundle(folder)
        listed = bundle.tables[kind].to_pylist()
        edit(listed)
        bundle.tables[kind] = pa.Table.from_pylist(listed, schema=schema(kind))
        write_bundle(bundle, folder)

    return change


def cell(kind: str, key: str, value: Any) -> Change:
    return rows(kind, lambda listed: listed[0].update({key: value}))


def inside(column: str, **changes: Any) -> Change:
    """Other values in a column of JSON."""
    return rows("runs", lambda listed: listed[0].update({column: json.dumps(json.loads(listed[0][column]) | changes)}))


def config(text: str, value: Any = None) -> Change:
    """Another config, with the hash of what it holds where that is given."""

    def edit(listed: list[Row]) -> None:
        meta = json.loads(listed[0]["meta"]) | ({} if value is None else {"config_sha256": config_hash(value)})
        listed[0] |= {"config": text, "meta": json.dumps(meta)}

    return rows("runs", edit)


def renamed(run_id: str) -> Change:
    """A run under another id, everywhere."""

    def change(folder: Path) -> None:
        bundle = read_bundle(folder)
        first = bundle.tables["runs"].to_pylist()[0]["run_id"]
        for kind in bundle.tables:
            listed = bundle.tables[kind].to_pylist()
            for row in listed:
                for key, value in row.items():
                    if isinstance(value, str):
                        row[key] = value.replace(first, run_id)
            bundle.tables[kind] = pa.Table.from_pylist(listed, schema=schema(kind))
        write_bundle(bundle, folder)

    return change


IDS = {
    "climbs": "../../../../outside/x",
    "absolute": "/tmp/plat-outside",
    "hidden": ".hidden",
    "empty": "",
    "zero byte": "a\0b",
    "newline": "0123456789ab\n",
    "upper case": "ABCDEF0123456789",
    "too long": "a" * 300,
    "scratch": ".tmp-1-1-a",
    "surrogate-like": "\u202e0123456789abcd",
}
NAMES = {
    "climbs": "experiments/../../outside.yaml",
    "absolute": "/etc/passwd",
    "folder": "experiments",
    "back slash": "experiments\\..\\x.yaml",
    "control": "experiments/\x1b[2J.yaml",
    "newline": "runs-0001.parquet\n",
    "nested": "experiments/papers/../../../x.yaml",
    "other kind": "secrets-0001.parquet",
    "too long": f"experiments/{'x' * 300}.yaml",
}
REFUSED: dict[str, Change] = {
    **{f"the id {name}": renamed(run_id) for name, run_id in IDS.items()},
    **{f"the file name {name}": named(name_) for name, name_ in NAMES.items()},
    **{f"the empty file {name}": raw(name, b"") for name in ("manifest.json", "runs-0001.parquet")},
    **{f"the cut file {name}": cut(name, 40) for name in ("manifest.json", "metrics-0001.parquet")},
    "a manifest whose files are a number": manifest(lambda content: content.update(files=3)),
    "a manifest whose files are a list": manifest(lambda content: content.update(files=[1, 2])),
    "a manifest that is no UTF-8": raw("manifest.json", b"\xff\xfe{}"),
    "a manifest nested deeply": raw("manifest.json", (DEEP + "]" * 100_000).encode()),
    "a manifest of many braces": raw("manifest.json", b'{"a":' * 100_000),
    "a manifest that is a list": raw("manifest.json", b"[1]"),
    "a manifest that is a number": raw("manifest.json", b"7"),
    "a manifest without keys": raw("manifest.json", b"{}"),
    "a manifest with a number of 5,000 digits": raw("manifest.json", b'{"plat_bundle": ' + b"9" * 5000 + b"}"),
    "a manifest that is a pipe": instead("manifest.json", os.mkfifo),
    "a manifest that is a device": instead("manifest.json", lambda path: path.symlink_to("/dev/zero")),
    "a manifest that is a folder": instead("manifest.json", Path.mkdir),
    "a manifest that is a dead link": instead("manifest.json", lambda path: path.symlink_to("nowhere")),
    "a manifest that is a link to itself": instead("manifest.json", lambda path: path.symlink_to(path)),
    "a larger sparse manifest": lambda folder: os.truncate(folder / "manifest.json", 1 << 40),
    "rows that are a pipe": instead("runs-0001.parquet", os.mkfifo),
    "rows that are a device": instead("runs-0001.parquet", lambda path: path.symlink_to("/dev/zero")),
    "rows that are a folder": instead("metrics-0001.parquet", Path.mkdir),
    "metrics in place of runs": lambda folder: shutil.copy(
        folder / "metrics-0001.parquet", folder / "runs-0001.parquet"
    ),
    "a hash of another file": manifest(lambda content: content["files"]["runs-0001.parquet"].update(sha256="0" * 64)),
    "a size that is negative": manifest(lambda content: content["files"]["runs-0001.parquet"].update(bytes=-1)),
    "a size that is no number": manifest(lambda content: content["files"]["runs-0001.parquet"].update(bytes="x")),
    "a size that is infinite": manifest(lambda content: content["files"]["runs-0001.parquet"].update(bytes=math.inf)),
    "facts of a file that are a list": manifest(lambda content: content["files"].update({"runs-0001.parquet": []})),
    "more files than there are": manifest(
        lambda content: content["files"].update({"runs-0002.parquet": {"bytes": 1, "sha256": "0"}})
    ),
    "more runs than there are": manifest(lambda content: content.update(runs=10**30)),
    "runs that are negative": manifest(lambda content: content.update(runs=-1)),
    "overrides that are numbers": manifest(lambda content: content.update(overrides=[1])),
    "experiments that clear the screen": manifest(
        lambda content: content.update(experiments=[{"name": "\x1b[2J", "title": "", "runs": []}])
    ),
    "Parquet that is none": fitting("runs-0001.parquet", b"PAR1" + os.urandom(100) + b"PAR1"),
    "Parquet of other columns": fitting_table("runs", pa.table({"a": [1]})),
    "Parquet of other types": fitting_table("metrics", pa.table({name: ["x"] for name in schema("metrics").names})),
    "Parquet without rows": fitting_table("runs", schema("runs").empty_table()),
    "a run that is there twice": rows("runs", lambda listed: listed.append(listed[0])),
    "a metric that is there twice": rows("metrics", lambda listed: listed.append(listed[0])),
    "metrics of a run that is not there": rows(
        "metrics", lambda listed: listed.append(listed[0] | {"run_id": "f" * 16})
    ),
    "a metric less": rows("metrics", lambda listed: listed.pop()),
    "a metric more": rows("metrics", lambda listed: listed.append(listed[0] | {"step": 10**9})),
    "a count of rows beyond all": cell("runs", "metric_rows", 2**62),
    "a step that is negative": cell("metrics", "step", -5),
    "a time that is not a number": cell("metrics", "time", math.nan),
    "a time that is infinite": cell("tables", "time", math.inf),
    "a metric without a name": cell("metrics", "key", ""),
    "a metric whose name climbs": cell("metrics", "key", "../../x"),
    "a metric whose name clears the screen": cell("metrics", "key", "\x1b[2J"),
    "a table whose name climbs": cell("tables", "name", "../../x"),
    "a table that is no JSON": cell("tables", "data", "{bad"),
    "a table nested deeply": cell("tables", "data", DEEP),
    "a meta that is no JSON": cell("runs", "meta", "{"),
    "a meta nested deeply": cell("runs", "meta", DEEP),
    "a meta that is a list": cell("runs", "meta", "[]"),
    "a meta of another run": inside("meta", id="f" * 16),
    "a meta whose file climbs": inside("meta", experiments=["../../x"]),
    "a meta whose name has a new line": inside("meta", name="a\nb"),
    "a meta whose axes are a list": inside("meta", axes=[1]),
    "a meta with resources of text": inside("meta", resources="all"),
    "a result of another attempt": inside("result", attempt=9),
    "a result that never ends": inside("result", time=math.inf),
    "an outcome that is none": inside("result", outcome="won"),
    "an attempt that is negative": cell("runs", "attempt", -1),
    "an attempt beyond all": cell("runs", "attempt", 2**62),
    "a config that is missing": cell("runs", "config", None),
    "a config that is a bomb": config(BOMB),
    "a config that merges a bomb": config(MERGED),
    "a config that contains itself": config("a: &a [*a]"),
    "a config nested deeply": config(DEEP),
    "a config of dashes": config("- " * 100_000),
    "a config that calls": config("a: !!python/object/apply:os.system ['touch /tmp/plat-outside']"),
    "a config that is a list": config("[1]", [1]),
    "a config that is a date": config("a: 2020-01-01"),
    "a config that is none": config("a: ["),
    "a config of another hash": config("a: 1"),
}
# What is unusual and does no harm: the runs are imported with the values that the good bundle has.
TAKEN: dict[str, Change] = {
    "another file in the folder": lambda folder: (folder / "more.txt").write_text("x"),
    "a pipe in the folder": lambda folder: os.mkfifo(folder / "more"),
    "a link to the same file": lambda folder: (
        (folder / "runs-0001.parquet").rename(folder / "other"),
        (folder / "runs-0001.parquet").symlink_to(folder / "other"),
    ),
    "a manifest with more keys": manifest(lambda content: content.update(more=1)),
}
