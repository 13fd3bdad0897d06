"""`plat import neptune`: the Parquet files of neptune-exporter, and what may be wrong with them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow.parquet import write_table

TIME = pa.timestamp("ms", tz="UTC")
SCHEMA = pa.schema(  # of neptune-exporter, in its order
    [
        *((name, pa.string()) for name in ("project_id", "run_id", "attribute_path", "attribute_type")),
        ("step", pa.decimal128(18, 6)),
        ("timestamp", TIME),
        ("int_value", pa.int64()),
        ("float_value", pa.float64()),
        ("string_value", pa.string()),
        ("bool_value", pa.bool_()),
        ("datetime_value", TIME),
        ("string_set_value", pa.list_(pa.string())),
        ("file_value", pa.struct([("path", pa.string())])),
        ("histogram_value", pa.struct([("type", pa.string()), ("values", pa.list_(pa.float64()))])),
    ]
)
START = datetime(2026, 1, 2, tzinfo=UTC)
PAIRS = [(lr, seed) for lr in (0.1, 0.01) for seed in (0, 1)]


def rows_of(number: int, lr: float, seed: int, **more: Any) -> list[dict[str, Any]]:
    values: dict[str, tuple[str, Any]] = {
        "sys/name": ("string", "tune"),
        "sys/creation_time": ("datetime", START + timedelta(hours=number)),
        "sys/failed": ("bool", False),
        "params/lr": ("float", lr),
        "params/seed": ("int", seed),
        "params/adam": ("bool", True),
        "params/tags": ("string_set", ["a", "b"]),
        **more,
    }
    rows = [
        {"attribute_path": name, "attribute_type": kind, f"{kind}_value": value}
        for name, (kind, value) in values.items()
    ]
    for metric in ("val/loss", "monitoring/cpu"):
        for step in range(3):
            at = START + timedelta(seconds=step)
            rows.append(point(metric, step, lr / (step + 1) + seed, at))
    rows.append(point("val/loss", 1, lr / 2 + seed, START))  # written before the one that counts
    rows.append({"attribute_path": "log", "attribute_type": "string_series", "step": Decimal(1), "string_value": "x"})
    rows.append({"attribute_path": "model", "attribute_type": "file", "file_value": {"path": "m"}})
    return [{"project_id": "me/mine", "run_id": f"MINE-{number}", **row} for row in rows]


def point(metric: str, step: Any, value: float, at: datetime = START) -> dict[str, Any]:
    moment = {"step": Decimal(step), "timestamp": at, "float_value": value}
    return {"attribute_path": metric, "attribute_type": "float_series", **moment}


def export(folder: Path, runs: list[list[dict[str, Any]]]) -> None:
    (folder / "mine_ab12").mkdir(parents=True)
    for number, rows in enumerate(runs):
        for part, some in enumerate((rows[:9], rows[9:])):  # a run has several parts
            file = folder / "mine_ab12" / f"MINE-{number}_part_{part}.parquet"
            write_table(pa.Table.from_pylist(some, schema=SCHEMA), file)


def test_all_values_of_a_project(plat, project, stored):
    export(Path("data"), [rows_of(number, *pair) for number, pair in enumerate(PAIRS)])
    code, out, err = plat("import", "neptune", "data", "--out", "mine.yaml")
    assert (code, err) == (0, "") and "4 runs of neptune, axes: params.lr, seed" in out
    assert stored("mine.yaml", "params.lr", "seed") == {
        (lr, seed): {"val/loss": [(step, lr / (step + 1) + seed) for step in range(3)]} for lr, seed in PAIRS
    }
    assert 'params.tags=["a", "b"]' in Path("mine.yaml").read_text()
    code, out, _ = plat("import", "neptune", "data", "--metrics", "monitoring/cpu", "--dry-run")
    assert code == 0 and "metrics: monitoring/cpu" in out


def test_failed_runs_and_forks_are_said(plat, project):
    runs = [rows_of(number, *pair) for number, pair in enumerate(PAIRS)]
    runs.append(rows_of(4, 0.1, 2, **{"sys/failed": ("bool", True)}))
    runs.append(rows_of(5, 0.1, 3, **{"sys/state": ("string", "Active")}))
    runs.append(rows_of(6, 0.1, 4, **{"sys/forking/parent": ("string", "MINE-0")}))
    export(Path("data"), runs)
    code, out, _ = plat("import", "neptune", "data", "--dry-run")
    assert code == 0 and "5 runs of neptune" in out and "did not finish: 2 runs" in out
    assert "1 run continued from another run, such as MINE-6" in out


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: None, "there is no such file or folder"),
        (lambda: Path("data").mkdir(), "has no Parquet file"),
        (lambda: export(Path("data"), [[{**rows_of(0, 1, 0)[0], **point("a", "0.5", 1.0)}]]), "the step of a is 0.5"),
        (lambda: export(Path("data"), [[]]), "there is no run in it"),
        (lambda: other(), "it has no column attribute_path"),
        (lambda: damaged(), "the file cannot be read"),
    ],
)
def test_what_is_wrong_is_one_message_and_nothing_is_written(plat, project, make, said):
    make()
    code, _, err = plat("import", "neptune", "data", "--out", "mine.yaml")
    assert code == 2 and said in err and err.count("\n") == 3 and not Path("mine.yaml").exists()


def other() -> None:
    Path("data").mkdir()
    write_table(pa.table({"project_id": ["a"], "run_id": ["b"]}), "data/x.parquet")


def damaged() -> None:
    export(Path("data"), [rows_of(0, 1.0, 0)])
    file = next(Path("data").rglob("*.parquet"))
    file.write_bytes(file.read_bytes()[:-20])
