"""Files as libraries write them that plat's requirements lack, imitated: Lightning 2.6.6, stable-baselines3 2.9.2,
Keras 3.15.1, trackio 0.43.0. `test_loggers.py` has the libraries themselves."""

from __future__ import annotations

import csv
import json
import sqlite3
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from plat.trainer.script.readers.metrics_file import MetricsFile
from plat.trainer.script.readers.objects import Logged
from plat.trainer.script.readers.trackio import TrackioFiles

Curves = dict[str, dict[int, float]]
Rows = list[Mapping[str, float]]


def refuse(what: str, where: str, fix: str) -> None:
    raise AssertionError(f"{where}: {what}")


def curves(found: list[Logged]) -> Curves:
    made: Curves = {}
    for logged in found:
        for name, value in logged.metrics.items():
            made.setdefault(name, {})[logged.step] = value
    return made


def lightning(path: Path, rows: Rows) -> None:
    """Append the newest row; with a new key, write all rows anew under a sorted header."""
    names = sorted({name for row in rows for name in row})
    old = path.read_text().partition("\n")[0] if path.exists() else ""
    is_new = old != ",".join(names)
    with path.open("w" if is_new else "a", newline="") as file:
        writer = csv.DictWriter(file, fieldnames=names)
        if is_new:
            writer.writeheader()
        writer.writerows(rows if is_new else rows[-1:])


def stable_baselines3(path: Path, rows: Rows) -> None:
    """Append the newest row; new keys come last in the header, and old rows get empty cells, in the same file."""
    names = list(dict.fromkeys(name for row in rows for name in sorted(row)))
    lines = [",".join(names), *(",".join(str(row.get(name, "")) for name in names) for row in rows)]
    with path.open("r+" if path.exists() else "w") as file:
        file.write("\n".join(lines) + "\n")


def keras(path: Path, rows: Rows) -> None:
    """Append the newest row; what it lacks is NA."""
    names = ["epoch", "loss", "val_loss"]
    with path.open("a", newline="") as file:
        writer = csv.DictWriter(file, fieldnames=names)
        if len(rows) == 1:
            writer.writeheader()
        writer.writerow({name: rows[-1].get(name, "NA") for name in names})


LIBRARIES: dict[str, tuple[Callable[[Path, Rows], None], str, list[dict[str, float]]]] = {
    "lightning": (
        lightning,
        "step",
        [{"step": 0, "train_loss": 2.5}, {"step": 0, "val_loss": 0.5, "acc": 0.25}, {"step": 1, "train_loss": 2.25}],
    ),
    "stable-baselines3": (
        stable_baselines3,
        "time/total_timesteps",
        [
            {"time/total_timesteps": 2048, "rollout/ep_rew_mean": 9.5},
            {"time/total_timesteps": 4096, "rollout/ep_rew_mean": 10, "train/loss": 0.5, "a/first": 3},
        ],
    ),
    "keras": (keras, "epoch", [{"epoch": 0, "loss": 0.5}, {"epoch": 1, "loss": 0.25, "val_loss": 2.0}]),
}


@pytest.mark.parametrize("name", LIBRARIES)
@pytest.mark.parametrize("looks", [True, False])
def test_csv_as_libraries_write_it(tmp_path: Path, name: str, looks: bool) -> None:
    write, step, rows = LIBRARIES[name]
    file, found = MetricsFile(tmp_path / "m.csv", "", refuse), list[Logged]()
    expected: Curves = {}
    for count, row in enumerate(rows, start=1):
        write(tmp_path / "m.csv", rows[:count])  # type: ignore[arg-type]
        found += file.new() if looks else ()
        for metric in row.keys() - {step}:
            expected.setdefault(metric, {})[int(row[step])] = row[metric]
    assert curves([*found, *file.new(is_last=True)]) == expected


def test_the_file_of_trackio(tmp_path: Path) -> None:
    files = TrackioFiles(tmp_path, refuse)
    (tmp_path / "other.db").write_text("")
    found = list(files.new())
    with sqlite3.connect(tmp_path / "mine.db") as database:
        database.execute(
            "CREATE TABLE metrics (id INTEGER PRIMARY KEY, run_id TEXT NOT NULL, timestamp TEXT NOT NULL, "
            "run_name TEXT NOT NULL, step INTEGER NOT NULL, metrics TEXT NOT NULL, log_id TEXT, space_id TEXT)"
        )
    for step in range(3):
        values = json.dumps({"loss": 1 / (step + 1), "train": {"acc": step}, "bad": "NaN", "note": "1"}).encode()
        row = ("r", "2026-11-27T03:12:20.029514+00:00", "one", step, values)
        with sqlite3.connect(tmp_path / "mine.db") as database:
            database.execute("INSERT INTO metrics (run_id, timestamp, run_name, step, metrics) VALUES (?,?,?,?,?)", row)
        found += files.new()
    assert found[0].time == pytest.approx(1795749140.029514)
    read = curves(found)
    assert read["loss"] == {0: 1.0, 1: 0.5, 2: 1 / 3} and sorted(read) == ["bad", "loss", "train.acc"]
