"""Experiment files and overrides with random damage are read or refused, and never give a traceback."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import pytest

from plat.errors import PlatError, SpecError
from plat.spec.expansion.experiment import build_run, load_experiment

SEED_FILE = """title: t

base: {algorithm: ppo}
matrix:
  variant: {PPO: {}, GRPO: {algorithm: grpo}}
  task: [sokoban, frozenlake]
  seed: [0, 1]

zip: []
include: [{variant: PPO, task: countdown, seed: 7}]
exclude: [{task: sokoban, seed: [1]}]
report: [{builder: collapse, pair: filter}]
claims: [{id: a, check: mean_delta_positive, says: "words: here"}]
"""
SPLINTERS = [
    "[",
    "]",
    "{",
    "}",
    ":",
    "- ",
    "&a ",
    "*a",
    "\t",
    "\n",
    "'",
    '"',
    "null",
    "!!int ",
    "<<: ",
    "1e999",
    "\x00",
    "é",
]


@pytest.mark.parametrize("seed", range(300))
def test_mutated_files_are_read_or_refused(write: Callable[[str | bytes], Path], seed: int) -> None:
    rng = random.Random(seed)
    text = SEED_FILE
    for _ in range(rng.randint(1, 4)):
        at = rng.randrange(len(text))
        match rng.randrange(4):
            case 0:
                text = text[:at] + rng.choice(SPLINTERS) + text[at:]
            case 1:
                text = text[:at] + text[at + rng.randint(1, 8) :]
            case 2:
                lines = text.splitlines(keepends=True)
                rng.shuffle(lines)
                text = "".join(lines)
            case _:
                start = rng.randrange(len(text))
                text = text[:at] + text[start : start + rng.randint(1, 12)] + text[at:]
    try:
        load_experiment(write(text))
    except PlatError as error:
        assert isinstance(error, SpecError) and error.what and error.where and error.fix, error.render()
        assert "\n" not in error.what


@pytest.mark.parametrize("seed", range(100))
def test_mutated_overrides_are_read_or_refused(seed: int) -> None:
    rng = random.Random(seed)
    text = rng.choice(
        ["task=sokoban", "train.lr=1e-3", "task.env.size=6", "train={lr: 1}", "seed=[1]", "model.path=null"]
    )
    for _ in range(rng.randint(1, 3)):
        at = rng.randrange(len(text) + 1)
        splinter = rng.choice([*SPLINTERS, "=", ",", "range(", ")", "${", "~", "+", "@", ".", "nan"])
        text = text[:at] + splinter + text[at + rng.randint(0, 2) :]
    try:
        build_run([text])
    except PlatError as error:
        assert isinstance(error, SpecError) and error.what and error.where and error.fix, error.render()
