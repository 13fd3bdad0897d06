"""The options of real help texts, and of those of libraries that are not installed."""

from __future__ import annotations

import argparse

import click
import pytest

from plat.app.first_file.flags import Flag, flags_of_help
from plat.app.first_file.making import flags_of_config, with_defaults
from plat.errors import SpecError

BOXED = """
 Usage: train.py [OPTIONS] DATA

╭─ Options ──────────────────────────────────────────────────────────╮
│ *  --name             TEXT           a name [required]              │
│    --lr               FLOAT          the rate, which goes           │
│                                      on [default: 0.1]              │
│    --seed     -s      INTEGER RANGE  [default: 0]                   │
│    --fast     --no-fast              [default: no-fast]             │
│    --opt              [sgd|adam]     [default: sgd]                 │
│    --help                            Show this message and exit.    │
╰─────────────────────────────────────────────────────────────────────╯
"""


def by_name(text: str) -> dict[str, Flag]:
    return {flag.name: flag for flag in flags_of_help(text)}


def parser(**options: object) -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(prog="train.py", **options)  # type: ignore[arg-type]
    made.add_argument("data")
    made.add_argument("rest", nargs="?")
    made.add_argument("--lr", type=float, default=1e-3, help="rate (of learning)")
    made.add_argument("-b", "--batch-size", type=int, default=32, help="a text so long that it is broken " * 9)
    made.add_argument("--model", choices=["small", "big one"], default="small", help="which")
    made.add_argument("--betas", nargs=2, type=float, default=(0.9, 0.99), help="two")
    made.add_argument("--amp", action=argparse.BooleanOptionalAction, default=True, help="half")
    made.add_argument("--verbose", action="store_true", help="talk")
    made.add_argument("--out", required=True, help="where")
    made.add_argument("-n", type=int)
    alternatives = made.add_mutually_exclusive_group(required=True)
    alternatives.add_argument("--this", default=None)
    alternatives.add_argument("--that", default=None)
    return made


def test_argparse_with_its_defaults(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    flags = by_name(parser(formatter_class=argparse.ArgumentDefaultsHelpFormatter).format_help())
    assert [*flags] == ["data", "lr", "batch-size", "model", "betas", "amp", "verbose", "out", "this", "that"]
    assert flags["lr"] == Flag("lr", "--lr ", "0.001", says="rate (of learning)")
    assert flags["batch-size"].default == "32" and flags["batch-size"].says.count("broken") == 9
    assert (flags["model"].default, flags["model"].choices) == ("small", ("small", "big one"))
    assert flags["betas"].has_several and flags["betas"].default == "(0.9, 0.99)" and flags["betas"].says == "two"
    assert flags["amp"].is_switch and flags["verbose"].is_switch
    assert (flags["amp"].negation, flags["verbose"].negation) == ("--no-amp", "")
    required = [flag.name for flag in flags.values() if flag.is_required]
    assert required == ["data", "out"] and flags["out"].default is None


def test_argparse_without_its_defaults() -> None:
    flags = flags_of_help(parser().format_help())
    assert not [flag.name for flag in flags if flag.default is not None]
    source = """
import argparse
p.add_argument("--lr", type=float, default=1e-3)
p.add_argument("-b", "--batch-size", default=16 * 2)
p.add_argument("--model", default="small")
p.add_argument("--verbose", default=False)
p.add_argument("--out", default=None)
"""
    found = {flag.name: flag.default for flag in with_defaults(flags, [source, "not python at all ("])}
    assert {name: default for name, default in found.items() if default is not None} == {
        "lr": "0.001",
        "model": "small",
    }


def test_a_switch_and_its_negation_as_two_options_are_one_switch() -> None:
    script = argparse.ArgumentParser()
    script.add_argument("--bar", action="store_true", default=True)
    script.add_argument("--no-bar", dest="bar", action="store_false")
    script.add_argument("--no-cuda", action="store_true")
    flags = flags_of_help(script.format_help())
    assert [(flag.name, flag.negation) for flag in flags] == [("bar", "--no-bar"), ("no-cuda", "")]
    source = 'p.add_argument("--bar", action="store_true", default=True)'
    assert with_defaults(flags, [source])[0].default == "True"


def test_click() -> None:
    @click.command()
    @click.argument("data")
    @click.option("--lr", default=0.01, show_default=True, help="a text so long that click breaks it " * 3)
    @click.option("--size", type=click.IntRange(1), default=3, show_default=True)
    @click.option("--opt", type=click.Choice(["sgd", "adam"]), default="sgd")
    @click.option("--shout/--no-shout", default=False)
    @click.option("-s", "--seed", type=int, default=1)
    @click.option("--pair", nargs=2, type=float)
    @click.option("--need", required=True, type=float, help="it")
    def main() -> None: ...

    flags = by_name(main.get_help(click.Context(main, info_name="train.py")))
    assert [*flags] == ["data", "lr", "size", "opt", "shout", "seed", "pair", "need"]
    assert {name: flag.default for name, flag in flags.items() if flag.default} == {"lr": "0.01", "size": "3"}
    assert flags["opt"].choices == ("sgd", "adam") and flags["shout"].is_switch and flags["pair"].has_several
    assert flags["need"].is_required and flags["need"].says == "it" and not flags["lr"].is_required
    assert not flags["seed"].is_switch and flags["lr"].says.count("breaks") == 3


def test_boxes() -> None:
    flags = by_name(BOXED)
    assert [*flags] == ["data", "name", "lr", "seed", "fast", "opt"]
    assert flags["name"].is_required and flags["name"].says == "a name"
    assert (flags["lr"].default, flags["lr"].says) == ("0.1", "the rate, which goes on")
    assert flags["seed"].default == "0" and flags["fast"].is_switch
    assert (flags["opt"].choices, flags["opt"].default) == (("sgd", "adam"), "sgd")


@pytest.mark.parametrize("text", ["", "usage: x", "--", "-- x", "  - a\n  --1", "\x1b[1m", "│", "(default: ("])
def test_texts_without_options(text: str) -> None:
    assert flags_of_help(text) == []


@pytest.mark.parametrize(
    ("says", "default"),
    [
        ("(default: f(1, (2)))", "f(1, (2))"),
        ("words (default: 3) and more", "3"),
        ("(type: int, default: 3)", "3"),
        ("[default: 3; x>=1]", "3"),
        ("(default: 'a b')", "a b"),
        ("(default: None)", None),
        ("(default: )", None),
        ("(default: 3", "3"),
    ],
)
def test_defaults(says: str, default: str | None) -> None:
    assert flags_of_help(f"options:\n  --x X  {says}\n")[0].default == default


def test_a_hydra_config() -> None:
    text = "optim:\n  lr: 0.1\n  betas: [1, 2]\nflag: true\nname: adam\nneed: ???\nnothing: null\nwords: 'a, b'\n"
    flags = {flag.name: flag for flag in flags_of_config(text)}
    assert flags["optim.lr"] == Flag("optim.lr", "optim.lr=", "0.1") and flags["optim.betas"].has_several
    assert {flag.name: flag.default for flag in flags.values() if flag.default} == {
        "optim.lr": "0.1",
        "flag": "true",
        "name": "adam",
    }
    assert [flag.name for flag in flags.values() if flag.is_required] == ["need"]


@pytest.mark.parametrize("text", ["a: [", "just words", ""])
def test_what_is_no_hydra_config(text: str) -> None:
    with pytest.raises(SpecError, match="--cfg job"):
        flags_of_config(text)
