"""The experiment file and the folder of recordings that an import writes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from plat.app.recorded.foreign_run import ForeignRun
from plat.app.recorded.metric_choice import Choice
from plat.app.recorded.selection import select
from plat.app.recorded.sources import check_free, write
from plat.errors import SpecError
from plat.spec.expansion.experiment import Experiment, load_experiment


def written(folder: Path, values: list[dict[str, Any]], *axes: str) -> Experiment:
    runs = [ForeignRun(f"r{number}", row, {1: {"loss": 0.5}}, "place") for number, row in enumerate(values)]
    write(folder / "mine.yaml", "csv", select(runs, Choice(axes=axes)))
    return load_experiment(folder / "mine.yaml")


def labels(experiment: Experiment, *axes: str) -> set[tuple[Any, ...]]:
    return {tuple(run.axes[axis] for axis in axes) for run in experiment.runs}


def test_a_full_grid_has_neither_exclude_nor_zip(tmp_path: Path) -> None:
    values = [{"lr": lr, "opt": opt, "seed": seed} for lr in (10, 2) for opt in ("b", "a") for seed in (1, 0)]
    assert len(written(tmp_path, values).runs) == 8
    text = (tmp_path / "mine.yaml").read_text()
    assert "  lr: [2, 10]\n  opt: [b, a]\n  seed: [0, 1]\n" in text and "zip" not in text and "exclude" not in text


def test_a_grid_with_holes_excludes_them(tmp_path: Path) -> None:
    cells = {(lr, opt, seed) for lr in (1, 2) for opt in ("a", "b") for seed in range(3)}
    cells -= {(1, "a", 2), (2, "b", 0), (2, "b", 1), (2, "b", 2)}
    experiment = written(tmp_path, [dict(zip(("lr", "opt", "seed"), cell, strict=True)) for cell in sorted(cells)])
    assert labels(experiment, "lr", "opt", "seed") == cells
    text, _, _ = (tmp_path / "mine.yaml").read_text().partition("# To ask")
    assert text.endswith("exclude:\n  - {lr: 1, opt: a, seed: [2]}\n  - {lr: 2, opt: b}\n")


def test_runs_without_a_grid_are_listed(tmp_path: Path) -> None:
    values = [{"lr": lr, "wd": lr / 7, "seed": 3 * lr} for lr in (1, 2, 3, 3)]
    values[-1]["seed"] = 4
    experiment = written(tmp_path, values)
    assert labels(experiment, "lr", "wd", "seed") == {tuple(row.values()) for row in values}
    assert "zip: [[lr, wd, seed]]" in (tmp_path / "mine.yaml").read_text()


@pytest.mark.parametrize("value", ["no", "1e-3", "a: b", "#x", "ünï", "", 'say "x"', True, None, 1.5, -3, "range(5)"])
def test_odd_values_come_back_as_they_were(tmp_path: Path, value: Any) -> None:
    experiment = written(tmp_path, [{"x y": value, "seed": 0}, {"x y": "other", "seed": 0}])
    assert {run.axes["x y"] for run in experiment.runs} == {value, "other"}


def test_keys_that_mean_something_else_in_an_experiment_file(tmp_path: Path) -> None:
    values = [{"trainer": name, "title": name, "recorded.folder": name, "args": name} for name in "ab"]
    experiment = written(tmp_path, values)
    keys = ["args.trainer", "args.title", "args.recorded.folder", "args.args"]
    assert labels(experiment, *keys) == {("a",) * 4, ("b",) * 4}


def test_values_that_no_experiment_can_hold_leave_nothing(tmp_path: Path) -> None:
    for value in ("${x}", "\x1b"):
        with pytest.raises(SpecError, match="the runs make no experiment") as error:
            written(tmp_path, [{"a": value}, {"a": "b"}])
        assert "--axes" in str(error.value.fix) and not list(tmp_path.iterdir())


def test_a_setting_and_one_below_it_are_two_axes(tmp_path: Path) -> None:
    experiment = written(tmp_path, [{"a": 1, "a.b": 3}, {"a": 2, "a.b": 4}])
    assert labels(experiment, "a", "a.b") == {(1, 3), (2, 4)}


def test_the_same_runs_give_the_same_files_and_ids(tmp_path: Path) -> None:
    values = [{"lr": lr, "seed": 0} for lr in (1, 2)]
    before = written(tmp_path, values)
    names = {path.name: path.read_bytes() for path in (tmp_path / "mine-runs").iterdir()}
    (tmp_path / "elsewhere").mkdir()
    after = written(tmp_path / "elsewhere", [*values, {"lr": 3, "seed": 0}])
    assert {run.id for run in before.runs} < {run.id for run in after.runs} and len(after.runs) == 3
    again = {path.name: path.read_bytes() for path in (tmp_path / "elsewhere" / "mine-runs").iterdir()}
    assert again.items() > names.items()
    first, *steps = (json.loads(line) for line in next(iter(names.values())).splitlines())
    assert first["source"] == "csv" and first["run"][0] == "r" and steps == [{"step": 1, "metrics": {"loss": 0.5}}]


def test_existing_files_are_kept_unless_forced(tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    check_free(file, False)
    written(tmp_path, [{"lr": 1}])
    with pytest.raises(SpecError, match="it exists already"):
        check_free(file, False)
    check_free(file, True)
    (tmp_path / "mine-runs" / "notes.txt").touch()
    with pytest.raises(SpecError, match=r"files that no import wrote, such as notes\.txt"):
        check_free(file, True)
    for name, message in {"mine.txt": r"ends in \.yaml", "no/mine.yaml": "no such folder"}.items():
        with pytest.raises(SpecError, match=message):
            check_free(tmp_path / name, False)


def test_the_command_line_is_checked(plat, tmp_path, monkeypatch, nothing_named):
    monkeypatch.chdir(tmp_path)
    Path("a.csv").write_text("lr,loss\n1,2\n")
    assert "--out runs.yaml" in plat("import", "table", "a.csv")[2]
    assert "no source is named" in plat("import", "table", "--out", "x.yaml")[2]
    unknown = plat("import", "wanb", "a.csv", "--out", "x.yaml")[2]
    assert "'wanb' is no kind of source" in unknown and "did you mean 'wandb'" in unknown
    assert "the kind comes first, one of table, log," in plat("import", "a.csv", "--out", "x.yaml")[2]
    assert "no such bundle" in plat("import", "nowhere")[2]
    code, out, _ = plat("import", "table", "a.csv", "--axes", "lr", "--out", "x.yaml", "--no-sweep")
    assert code == 0 and "next: plat sweep x.yaml" in out and not Path("plat-home").exists()
    assert plat("import", "table", "a.csv", "--axes", "lr", "--out", "x.yaml")[0] == 2
