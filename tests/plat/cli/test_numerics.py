"""How a run was computed is recorded, shown, and told where runs of one report differ in it."""

from __future__ import annotations

import os

import pytest
from beside import trainer_text
from fresh_plat import fresh_plat

from plat.store.run_directory.numerics import VARIABLES, numerics, numerics_in_words, numerics_of_run

LINE = "io.log(1, {'val/success': 0.5, 'optimize': float(sys.flags.optimize)})"
FILE = """
title: Own
base: {trainer: 'own_trainer:Own'}
matrix: {seed: [0, 1]}
"""


@pytest.fixture
def plat(tmp_path):
    """Run `plat` beside a trainer of one's own, with more variables."""
    (tmp_path / "own_trainer.py").write_text(trainer_text("own_trainer", LINE))
    (tmp_path / "own.yaml").write_text(FILE)

    def run(*arguments, **variables):
        environment = {name: value for name, value in os.environ.items() if name not in VARIABLES}
        environment |= {"PYTHONPATH": str(tmp_path), "PLAT_ALLOW_IMPORT": "1", "COLUMNS": "400", **variables}
        done = fresh_plat(*arguments, cwd=tmp_path, env=environment)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    return run


def test_a_report_says_when_its_runs_were_computed_in_several_ways(plat, home):
    alone = plat("sweep", "own.yaml", "matrix.seed=[0]", MKL_CBWR="COMPATIBLE")
    assert "numerics" not in alone, "all its runs were computed in one way"
    both = plat("sweep", "own.yaml")
    assert "runs of several numerics are compared here" in both and "MKL_CBWR=COMPATIBLE (1 run)" in both
    pinned = next(
        file for file in (home / "runs").glob("*/*/attempts/001/attempt.json") if "MKL_CBWR" in file.read_text()
    )
    why = plat("why", pinned.parents[2].name)
    assert f"computed   {numerics()['cpu']}" in why and "MKL_CBWR=COMPATIBLE" in why


def test_docstrings_and_assertions_are_there_for_the_runs(plat):
    """transformers reads docstrings: under PYTHONOPTIMIZE=2 every run failed."""
    plat("sweep", "own.yaml", "matrix.seed=[0]", PYTHONOPTIMIZE="2")
    assert plat("runs", "own.yaml", "matrix.seed=[0]", "--columns", "optimize", "--csv").split()[-1].endswith("0.0")


def test_what_is_recorded(monkeypatch):
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("DNNL_MAX_CPU_ISA", "SSE41")
    facts = numerics()
    assert facts["variables"] == {"DNNL_MAX_CPU_ISA": "SSE41"} and facts["libraries"].keys() == {"torch", "numpy"}
    words = numerics_in_words(facts)
    assert (
        words.startswith(facts["cpu"]) and words.endswith("DNNL_MAX_CPU_ISA=SSE41") and facts["instructions"] in words
    )


def test_attempts_of_one_run_that_computed_in_several_ways_are_all_named():
    first, second = {"cpu": "A", "instructions": "avx2"}, {"cpu": "B", "instructions": "avx512"}
    assert numerics_of_run([first, {}, first]) == "A (avx2)"
    assert numerics_of_run([first, second]) == "A (avx2); then B (avx512)"
    assert numerics_of_run([]) == "" == numerics_in_words({})
