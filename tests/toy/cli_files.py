"""Experiment files that tests of the command line share, and the results of their runs."""

from __future__ import annotations

from pathlib import Path

GOOD = "title: A test\nbase: {scale: smoke}\nmatrix:\n  task: [frozenlake]\n  seed: [0]\n"
GUESSING = """
title: A test
base: {trainer: toy_hill_climber, climb.games: 5, climb.iterations: 2}
matrix:
  policy: [wild, climber]
  seed: [0]
report:
  - builder: toy_success_by_policy
"""


def results_of(home: Path) -> dict[str, int]:
    return {path.parent.name: path.stat().st_mtime_ns for path in home.glob("runs/*/*/result.json")}
