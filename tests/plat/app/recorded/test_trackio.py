"""`plat import trackio`: a project's database and its exported Parquet files, and what may be wrong with them.

The tables are those of Trackio 0.43.0. `test_the_package_itself` needs it.
"""

from __future__ import annotations

import json
import math
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

METRICS = "id INTEGER PRIMARY KEY, run_id TEXT, timestamp TEXT, run_name TEXT, step INTEGER, metrics TEXT"
CONFIGS = "id INTEGER PRIMARY KEY, run_id TEXT, run_name TEXT, config TEXT, created_at TEXT"
PAIRS = [(lr, seed) for lr in (0.1, 0.01) for seed in (0, 1)]


def row(step: int, lr: float, seed: int) -> dict[str, object]:
    return {"loss": lr / (step + 1) + seed, "train": {"acc": step / 4}, "ok": True, "note": "x"}


def make_project(path: Path, name: str = "run", pairs: list[tuple[float, int]] = PAIRS) -> None:
    path.parent.mkdir(exist_ok=True)
    with closing(sqlite3.connect(path)) as database, database:
        database.execute(f"CREATE TABLE metrics ({METRICS})")
        database.execute(f"CREATE TABLE configs ({CONFIGS})")
        for number, (lr, seed) in enumerate(pairs):
            config = {"lr": lr, "seed": seed, "opt": {"name": "adam"}, "_Username": f"u{number}", "_Group": None}
            known = (f"{number:032x}", name if name == "same" else f"{name}{number}")
            at = f"2026-11-27T03:1{number}:0%d+00:00"
            database.execute("INSERT INTO configs VALUES (NULL, ?, ?, ?, ?)", (*known, json.dumps(config), at % 0))
            for step in range(3):
                values = json.dumps(row(step, lr, seed)).encode()
                database.execute(
                    "INSERT INTO metrics VALUES (NULL, ?, ?, ?, ?, ?)", (known[0], at % step, known[1], step, values)
                )
            last = (known[0], at % 9, known[1], 9, json.dumps({"test": "NaN"}))
            database.execute("INSERT INTO metrics VALUES (NULL, ?, ?, ?, ?, ?)", last)


def parquet(folder: Path) -> None:
    """Write what Trackio exports: the cells of the JSON as columns."""
    from pyarrow import Table
    from pyarrow.parquet import write_table

    folder.mkdir()
    rows, configs = [], []
    for number, (lr, seed) in enumerate(PAIRS):
        known = {"run_id": f"{number:032x}", "run_name": f"run{number}"}
        configs.append(
            {"id": number, **known, "created_at": f"2026-11-27T03:1{number}:00+00:00", "lr": lr, "seed": seed}
        )
        for step in range(3):
            at = f"2026-11-27T03:1{number}:0{step}+00:00"
            rows.append(
                {"id": 3 * number + step, **known, "timestamp": at, "step": step, **row(step, lr, seed), "test": None}
            )
        rows.append({**rows[-1], "step": 9, "loss": None, "train": None, "test": math.nan})
    write_table(Table.from_pylist(rows), folder / "mine.parquet")
    write_table(Table.from_pylist(configs), folder / "mine_configs.parquet")
    write_table(
        Table.from_pylist([{"run_name": "run0", "timestamp": "2026-11-27", "cpu": 1.0}]), folder / "mine_system.parquet"
    )


def expected() -> dict[tuple[float, int], dict[str, list[tuple[int, float]]]]:
    return {
        (lr, seed): {
            "loss": [(step, lr / (step + 1) + seed) for step in range(3)],
            "test": [(9, pytest.approx(math.nan, nan_ok=True))],
            "train.acc": [(step, step / 4) for step in range(3)],
        }
        for lr, seed in PAIRS
    }


@pytest.mark.parametrize("kind", ["database", "folder", "parquet"])
def test_all_values_of_a_project(plat, project, stored, kind):
    if kind == "parquet":
        parquet(Path("store"))
    else:
        make_project(Path("store", "mine.db"))
    source = "store/mine.db" if kind == "database" else "store"
    code, out, err = plat("import", "trackio", source, "--out", "mine.yaml")
    assert (code, err) == (0, "") and "axes: lr, seed" in out
    assert stored("mine.yaml", "lr", "seed") == expected()


def test_several_projects_are_an_axis_and_equal_names_are_told_apart(plat, project, stored):
    make_project(Path("store", "a.db"), "same")
    make_project(Path("store", "b.db"), pairs=PAIRS[:2])
    code, out, _ = plat("import", "trackio", "store", "--out", "mine.yaml", "--metrics", "loss")
    assert code == 0 and "axes: project, lr, seed" in out
    assert {key[0] for key in stored("mine.yaml", "project", "lr", "seed")} == {"a", "b"}
    names = {json.loads(path.read_text().splitlines()[0])["run"] for path in Path("mine-runs").glob("*")}
    assert names == {"run0", "run1", *(f"same ({number:032x})" for number in range(4))}


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda path: None, "there is no such file"),
        (lambda path: path.write_text("no database" * 200), "the project cannot be read: file is not a database"),
        (
            lambda path: sqlite3.connect(path).executescript("CREATE TABLE other (id)"),
            "the project cannot be read: no such table: metrics",
        ),
        (lambda path: make_project(path, pairs=[]), "there is no run in it"),
        (lambda path: broken(path, "metrics", "{"), "is no JSON"),
        (lambda path: broken(path, "metrics", "[1]"), "is no object"),
        (lambda path: broken(path, "step", -1), "the step is -1"),
        (lambda path: broken(path, "run_name", None), "no columns run_name"),
    ],
)
def test_what_is_wrong_is_one_message_and_nothing_is_written(plat, project, make, said):
    make(Path("mine.db"))
    before = sorted(Path().iterdir())
    code, _, err = plat("import", "trackio", "mine.db", "--out", "mine.yaml")
    assert code == 2 and said in err and err.count("\n") == 3 and sorted(Path().iterdir()) == before


def broken(path: Path, column: str, value: object) -> None:
    make_project(path)
    with closing(sqlite3.connect(path)) as database, database:
        database.execute(f"UPDATE metrics SET {column} = ? WHERE id = 3", (value,))


def test_the_package_itself(plat, project, stored, monkeypatch):
    pytest.importorskip("trackio")
    code = "import json, sys, trackio\n"
    for number, (lr, seed) in enumerate(PAIRS):
        code += f"trackio.init(project='mine', name='run{number}', config={{'lr': {lr}, 'seed': {seed}}})\n"
        code += "".join(f"trackio.log({row(step, lr, seed)!r})\n" for step in range(3))
        code += "trackio.log({'test': float('nan')}, step=9)\ntrackio.finish()\n"
    monkeypatch.setenv("TRACKIO_DIR", "store")
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)
    assert plat("import", "trackio", "store", "--out", "mine.yaml")[0] == 0
    assert stored("mine.yaml", "lr", "seed") == expected()
