"""A first file can be planned whatever a script's options are called and hold."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from plat.app.first_file import write
from plat.app.first_file.flags import Flag, placed
from plat.app.first_file.user_script import UserScript
from plat.app.first_file.write import file_text
from plat.errors import SpecError
from plat.spec.expansion.experiment import load_experiment
from plat.spec.reading.yaml_reader import read
from plat.trainer.script.config import TO_FILL_IN
from plat_analysis.plugins.entry_checking import check_entries

NAMES = st.from_regex(r"[A-Za-z][A-Za-z0-9_.:-]{0,8}", fullmatch=True)
KNOWN = st.sampled_from(["seed", "trainer", "args", "script.command", "title", "config", "matrix.lr", "lr", "lr.decay"])
WORDS = st.text(max_size=12)
DEFAULTS = (
    st.none() | WORDS | st.sampled_from(["1e-3", "007", "1e999", "9" * 30, "9" * 5000, "true", "True", "~", "- x"])
)
FLAGS = st.builds(
    lambda name, hydra, **facts: Flag(name, f"{name}=" if hydra else f"--{name} ", **facts),
    NAMES | KNOWN,
    st.booleans(),
    default=DEFAULTS,
    choices=st.lists(WORDS, max_size=3).map(tuple),
    says=WORDS,
    is_switch=st.booleans(),
    has_several=st.booleans(),
    is_required=st.booleans(),
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("first")


@settings(max_examples=60)
@given(flags=st.lists(FLAGS, max_size=6), name=st.sampled_from(["train.py", "my {x} it's.py", "tränen.py", "run.sh"]))
@example(flags=[Flag("lr", "--lr ", "0.1"), Flag("lr.decay", "--lr.decay ", "2")], name="train.py")
def test_every_text_can_be_planned(folder: Path, flags: list[Flag], name: str) -> None:
    file = folder / "first.yaml"
    used, left = placed(flags)
    script = UserScript(folder / name, ("import json",))
    text = file_text(script, "", used, left)
    if TO_FILL_IN in text:
        file.write_text(text, encoding="utf-8")
        with pytest.raises(SpecError, match=f"is still {TO_FILL_IN}"):
            load_experiment(file)
    file.write_text(text.replace(TO_FILL_IN, "given"), encoding="utf-8")
    experiment = load_experiment(file)
    has_seed = any(one.placeholder == "seed" for one in used)
    assert len(experiment.runs) == (5 if has_seed else 1)
    assert len(used) + len(left) == len(flags)


def test_the_examples_in_the_comments_work(folder: Path) -> None:
    flags = [Flag("lr", "--lr ", "0.1"), Flag("seed", "--seed ", "0"), Flag("opt", "--opt ", "sgd", ("sgd", "adam"))]
    text = file_text(UserScript(folder / "train.py", ()), "", *placed(flags))
    text = re.sub(r"^  # (lr: \[)", r"  \1", text, flags=re.MULTILINE).replace("  lr: 0.1\n", "")
    text = re.sub(r"^# ((claims:|  ).*)$", r"\1", text, flags=re.MULTILINE)
    file = folder / "changed.yaml"
    file.write_text(text)
    experiment = load_experiment(file)
    check_entries(experiment)
    assert len(experiment.runs) == 10 and len(experiment.claims) == 1
    assert {run.axes["lr"] for run in experiment.runs} == {0.1, 0.01}


def test_values_that_plat_knows_are_passed_by_it(folder: Path) -> None:
    names = ["random-seed", "out-dir", "checkpoint_dir", "config", "data"]
    used, left = placed([Flag(name, f"--{name} ", "here") for name in names])
    assert not left
    assert [one.placeholder for one in used] == [
        "seed", "plat.run_dir", "plat.checkpoint_dir", "config", "data"
    ]  # fmt: skip
    file = folder / "own.yaml"
    file.write_text(file_text(UserScript(folder / "train.py", ()), "", used, left))
    assert [key for key in read(file).data["base"] if not key.startswith(("script", "trainer"))] == ["config", "data"]


def test_only_the_first_seed_is_the_seed(folder: Path) -> None:
    used, _ = placed([Flag("a.seed", "a.seed=", "1"), Flag("b.seed", "b.seed=", "1")])
    assert [one.placeholder for one in used] == ["seed", "b.seed"]


def test_a_long_command_has_a_line_for_each_option(folder: Path) -> None:
    names = [f"option_{number}" for number in range(12)]
    used, left = placed([Flag(name, f"--{name} ", "1") for name in names])
    text = file_text(UserScript(folder / "train.py", ()), os.curdir, used, left)
    assert max(map(len, text.splitlines())) < 120 and "    --option_7 {option_7}\n" in text


@pytest.mark.parametrize("text", ["3.10", "007", "0.10", "+5", "12e5", "1e1", "1E5", "0e-3"])
def test_a_default_keeps_its_spelling(text: str) -> None:
    """The command would get 3.1 in place of 3.10."""
    assert write._text(text, of_number=True) == f'"{text}"'
    assert [write._text(number, of_number=True) for number in ("3.1", "7", "1e-3")] == ["3.1", "7", "1e-3"]


def test_switches_are_passed_by_their_values() -> None:
    flags = [
        Flag("amp", "--amp ", is_switch=True),
        Flag("ema", "--ema ", "True", is_switch=True, negation="--no-ema"),
        Flag("fast", "--fast ", "no-fast", is_switch=True, negation="--no-fast"),
        Flag("unknown", "--unknown ", is_switch=True, negation="--no-unknown"),
    ]
    used, left = placed(flags)
    assert [(one.word, one.value) for one in used] == [
        ("{amp?--amp}", "false"),
        ("{ema?--ema} {!ema?--no-ema}", "true"),
        ("{fast?--fast} {!fast?--no-fast}", "false"),
    ]
    assert [flag.name for flag in left] == ["unknown"]
