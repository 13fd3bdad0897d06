"""Commands of scripts: words, placeholders, and what is refused before anything runs."""

from __future__ import annotations

import shlex
import sys
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plat.errors import SpecError
from plat.trainer.script.command import check_placeholders, filled, words_of
from plat.trainer.script.config import ScriptConfig, ScriptRunConfig

PLACES = {"run_dir": "/run", "checkpoint_dir": "/run/checkpoints", "config": "/run/config.json"}


def config(command: Any, **args: Any) -> ScriptRunConfig:
    return ScriptRunConfig(seed=3, script=ScriptConfig(command=command), args=args)


def test_every_placeholder_gets_its_value() -> None:
    given = config(
        "run.sh --lr {lr} --flag {flag} {opt.name}={seed} {run_dir}/x", lr=0.1, flag=True, opt={"name": "a b"}
    )
    assert filled(given, PLACES) == ["run.sh", "--lr", "0.1", "--flag", "true", "a b=3", "/run/x"]
    assert filled(config(["tool", 7, "{{x}}"]), PLACES) == ["tool", "7", "{x}"]
    assert filled(config("python train.py"), PLACES) == [sys.executable, "train.py"]


@given(st.text(min_size=1).filter(lambda text: "\x00" not in text))
def test_a_value_is_one_word_whatever_it_contains(value: str) -> None:
    assert filled(config("tool --name {name} end", name=value), PLACES) == ["tool", "--name", value, "end"]


@given(st.lists(st.text(alphabet="ab'\" {}x", min_size=1), min_size=1))
def test_a_text_is_split_as_a_shell_would(words: list[str]) -> None:
    assert words_of(ScriptConfig(command=" ".join(map(shlex.quote, words)))) == words


@pytest.mark.parametrize(
    ("command", "says", "fix"),
    [
        ("python train.py --lr {lrr}", "uses {lrr}, which has no value", "did you mean 'lr'"),
        ("python train.py --seed {seed}", "does not use lr", "write {lr} where its value belongs"),
        ("python train.py | tee log", "has '|', and no shell reads it", "bash -c 'python train.py | tee log'"),
        ("", "there is no command", "python train.py"),
        ("python 'train.py", "No closing quotation", "close the quotes"),
        (7, "7 is not a command", "write a text"),
        ([], "is not a command", "list of words"),
    ],
)
def test_a_wrong_command_is_refused_with_its_fix(command: Any, says: str, fix: str) -> None:
    with pytest.raises(SpecError) as error:
        check_placeholders(config(command, lr=0.1))
    assert says in error.value.what and fix in (error.value.fix or "")


def test_a_script_that_reads_its_config_needs_no_placeholders() -> None:
    check_placeholders(config("python train.py", lr=0.1))
    check_placeholders(config("python train.py --config {config}", lr=0.1))
