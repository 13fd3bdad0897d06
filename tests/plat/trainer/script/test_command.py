"""Commands of scripts: words, placeholders, and what is refused before anything runs."""

from __future__ import annotations

import shlex
import sys
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plat.errors import SpecError
from plat.trainer.script.command import check_placeholders, command_of, filled, filled_variables, is_read_anew, words_of
from plat.trainer.script.config import ScriptConfig, ScriptRunConfig

PLACES = {"run_dir": "/run", "checkpoint_dir": "/run/checkpoints", "config": "/run/config.json", "checkpoint": ""}


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
        ("python t.py --lr {lr}  # the rate --seed {seed}", "would take options with it", "in a folded block"),
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


@pytest.mark.parametrize("name", ["config", "run_dir", "checkpoint_dir", "python", "checkpoint"])
def test_an_axis_with_the_name_of_a_place_reaches_the_script(name: str) -> None:
    given = config(f"tool --x {{{name}}} {{plat.{name}}}", **{name: "a.yaml"})
    check_placeholders(given)
    own = {**PLACES, "python": sys.executable}[name]
    assert filled(given, PLACES) == ["tool", "--x", "a.yaml", *([own] if own else [])]


@pytest.mark.parametrize(
    ("word", "value", "words"),
    [
        ("{amp?--amp}", True, ["--amp"]),
        ("{amp?--amp}", 0, ["--amp"]),
        *[("{amp?--amp}", off, []) for off in (False, None, "", "none", "False", [])],
        ("{!amp?--no-amp}", False, ["--no-amp"]),
        ("{!amp?--no-amp}", True, []),
        ("{amp?--amp={amp}}", "a b", ["--amp=a b"]),
        ("{amp?--amp {amp}}", "a b", ["--amp", "a b"]),
        ("{amp?--amp 'x y' {amp...}}", [1, 2], ["--amp", "x y", "1", "2"]),
        ("{amp...}", [64, "a b"], ["64", "a b"]),
        ("{amp...}", [], []),
        ("{amp}", "", []),
        ("{amp}", [1, 2], ["[1, 2]"]),
        ("--amp={amp}", "", ["--amp="]),
        ("--amp={amp!r}", True, ["--amp=True"]),
        ("--amp={amp!r}", None, ["--amp=None"]),
        ("--amp={amp!r}", "adam", ["--amp='adam'"]),
        ("'x {amp?--amp} y'", True, ["x --amp y"]),
        ("'x {amp?--amp} y'", False, ["x  y"]),
        ("\"{amp?--a 'b c'}\"", True, ["--a", "b c"]),
        ("'{print $1}{{amp}}'", True, ["{print $1}{amp}"]),
    ],
)
def test_switches_and_lists(word: str, value: Any, words: list[str]) -> None:
    given = config(f"tool {word}", **({"amp": value}))
    assert filled(given, PLACES) == ["tool", *words]


def test_a_list_inside_of_a_word_is_refused() -> None:
    with pytest.raises(SpecError, match="must be a word of its own"):
        check_placeholders(config("tool --sizes={sizes...}", sizes=[1, 2]))
    with pytest.raises(SpecError, match="needs a list"):
        check_placeholders(config("tool {sizes...}", sizes=3))


def test_a_flag_for_a_resume_is_there_only_with_a_checkpoint() -> None:
    given = config("tool {checkpoint?--resume {checkpoint}}")
    check_placeholders(given)
    assert filled(given, PLACES) == ["tool"]
    assert filled(given, {**PLACES, "checkpoint": "/run/checkpoints"}) == ["tool", "--resume", "/run/checkpoints"]


def test_a_command_of_a_page_is_read_as_a_shell_reads_it() -> None:
    text = "A=1 B={lr} python t.py \\\n  --lr {lr} \\\n  '#x' a#b # the rate\n"
    given = config(text, lr=0.1)
    check_placeholders(given)
    assert filled(given, PLACES) == [sys.executable, "t.py", "--lr", "0.1", "#x", "a#b"]
    assert filled_variables(given, PLACES) == {"A": "1", "B": "0.1"}
    assert command_of(ScriptConfig(command=["A=1", "x"])).words == ["A=1", "x"]


@pytest.mark.parametrize(
    ("text", "word", "fix"),
    [
        ("python t.py 2>err", "2>err", "bash -c 'python t.py 2>err'"),
        ("python t.py >x", ">x", "a run's log keeps the output"),
        ("cd x; python t.py", "x;", "bash -c 'cd x; python t.py'"),
        ("export A=1", "export", "bash -c 'export A=1'"),
        ("cd x", "cd", "bash -c 'cd x'"),
        ("python t.py ~/data", "~/data", "bash -c 'python t.py ~/data'"),
        ("python t.py --data=~/data", "--data=~/data", None),
        ("python t.py $HOME/x", "$HOME/x", "in quotes, for the text itself: '$HOME/x'"),
        ('python t.py "${HOME}/x"', "${HOME}/x", "${{HOME}}/x"),
        ("python t.py `date`", "`date`", "bash -c 'python t.py `date`'"),
        ("python t.py *.csv", "*.csv", "bash -c 'python t.py *.csv'"),
        ("PLAT_SEED=1 python t.py", "PLAT_SEED", "leave it out"),
    ],
)
def test_what_only_a_shell_can_do_is_refused(text: str, word: str, fix: str | None) -> None:
    if fix is None:
        assert words_of(ScriptConfig(command=text))[2] == word  # a shell leaves it, too
        return
    with pytest.raises(SpecError) as error:
        words_of(ScriptConfig(command=text))
    assert word in error.value.what and fix in (error.value.fix or "")


def test_a_pattern_counts_as_one_only_if_files_match_it(tmp_path: Any) -> None:
    script = ScriptConfig(command="app.py model=[1,2] http://x?y", folder=str(tmp_path))
    assert words_of(script) == ["app.py", "model=[1,2]", "http://x?y"]
    (tmp_path / "model=1").touch()
    with pytest.raises(SpecError, match="file names in place of"):
        words_of(ScriptConfig(command="app.py  model=[1,2]", folder=str(tmp_path)))


@given(st.lists(st.text(alphabet="ab'\" \\$`*~#>|&;{}x\n=", min_size=0), min_size=1))
def test_quoted_words_are_never_refused_or_changed(words: list[str]) -> None:
    assert words_of(ScriptConfig(command="tool " + " ".join(map(shlex.quote, words)))) == ["tool", *words]


@pytest.mark.parametrize(
    ("text", "values", "anew"),
    [
        ("python t.py --lr {lr} '{{x}}' {run_dir} \"a b\" {{y}}", {"lr": 0.1}, False),
        ("python t.py --config {config}", {"lr": 0.1}, False),
        ("python t.py --config {config}", {"config": "a.yaml"}, True),
        ("python t.py {lr}", {"lr": ""}, True),
        ("python t.py {lr} # it's", {"lr": "1"}, True),
        ("python t.py \\\n {lr}", {"lr": "1"}, True),
        ("A=1 python t.py {lr}", {"lr": "1"}, True),
        (["python", "{lr?--lr}"], {"lr": "1"}, True),
    ],
)
def test_a_command_that_0_4_read_otherwise_is_another_run(text: Any, values: dict[str, Any], anew: bool) -> None:
    assert is_read_anew(config(text, **values)) is anew
