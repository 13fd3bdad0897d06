"""A sweep executes its runs seed by seed, or as `order: file` says in the order of the matrix."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from plat.planning.cost import in_order
from plat.spec.expansion.experiment import load_experiment

Verb = Callable[..., tuple[int, str, str]]
FILE = """
title: t
{}
base:
  trainer: script
  script.command: python train.py --lr {{lr}} --seed {{seed}}
matrix:
  lr: [0.1, 0.2]
  seed: range(3)
"""
TRAIN = (
    "import json, sys\nprint(json.dumps({'step': 1, 'loss': 1}))\n"
    "open('started', 'a').write(sys.argv[2] + ' s' + sys.argv[4] + '\\n')\n"
)
SEEDS = [(lr, seed) for seed in range(3) for lr in (0.1, 0.2)]
BY_FILE = [(lr, seed) for lr in (0.1, 0.2) for seed in range(3)]


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("train.py").write_text(TRAIN)
    return tmp_path


def axes(file: str) -> list[tuple[float, int]]:
    return [(run.axes["lr"], run.axes["seed"]) for run in in_order(load_experiment(file))]


def test_seed_by_seed_and_the_order_of_the_file() -> None:
    Path("a.yaml").write_text(FILE.format(""))
    Path("b.yaml").write_text(FILE.format("order: file"))
    Path("c.yaml").write_text(FILE.format("order: seeds"))
    assert (axes("a.yaml"), axes("b.yaml"), axes("c.yaml")) == (SEEDS, BY_FILE, SEEDS)
    plain, kept = load_experiment("a.yaml"), load_experiment("b.yaml")
    assert [run.id for run in plain.runs] == [run.id for run in kept.runs] and plain.cells == kept.cells


def test_cells_of_several_sizes_take_turns() -> None:
    Path("a.yaml").write_text(FILE.format("exclude: [{lr: 0.1, seed: 1}, {lr: 0.1, seed: 2}]"))
    assert axes("a.yaml") == [(0.1, 0), (0.2, 0), (0.2, 1), (0.2, 2)]


@pytest.mark.parametrize(("order", "expected"), [("", SEEDS), ("order: file", BY_FILE)])
def test_runs_start_in_this_order(plat: Verb, order: str, expected: list[tuple[float, int]]) -> None:
    Path("a.yaml").write_text(FILE.format(order))
    code, _, err = plat("sweep", "a.yaml", "--jobs", "1")
    assert code == 0, err
    assert Path("started").read_text().splitlines() == [f"{lr} s{seed}" for lr, seed in expected]
    listed = json.loads(plat("plan", "a.yaml", "--json")[1])["runs"]
    assert [(row["axes"]["lr"], row["axes"]["seed"]) for row in listed] == BY_FILE


@pytest.mark.parametrize("order", ["order: seed", "order: [seeds]", "order:"])
def test_a_wrong_order_is_refused(plat: Verb, order: str) -> None:
    Path("a.yaml").write_text(FILE.format(order))
    code, _, err = plat("plan", "a.yaml")
    assert code == 2 and "order" in err and "a.yaml:3" in err
