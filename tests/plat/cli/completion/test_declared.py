"""What is read from the source of the verbs is what typer makes of them."""

from __future__ import annotations

from typing import Any

import pytest

from plat.cli import verb_list
from plat.cli.completion import declared
from plat.cli.completion.declared import Command


def same(found: Command, real: Any) -> None:
    options = [one for one in real.params if one.param_type_name == "option"]
    names = {name: one for one in options for name in (*one.opts, *one.secondary_opts)}
    assert found.options.keys() - {"--help", "-h"} == names.keys() - {"--help", "-h"}
    assert {name: found.options[name] for name in names} == {name: one.help for name, one in names.items()}
    assert found.takes.keys() == {name for name, one in names.items() if not one.is_flag}
    assert {name: metavar for name, metavar in found.takes.items() if metavar} == {
        name: one.metavar for name, one in names.items() if one.metavar
    }
    arguments = [one for one in real.params if one.param_type_name == "argument"]
    assert found.arguments == [one.metavar for one in arguments]


@pytest.mark.parametrize("verb", verb_list.VERBS)
def test_a_verb(verb: str) -> None:
    same(declared.command(verb), verb_list.load(verb))


@pytest.mark.parametrize("group", verb_list.GROUPS)
def test_the_verbs_of_a_group(group: str) -> None:
    functions, real = declared.subcommands(group), verb_list.load(group)
    assert [*functions] == [*real.commands]
    for name, function in functions.items():
        same(declared.command(group, function), real.commands[name])


def test_the_list_of_verbs() -> None:
    assert declared.verbs() == {**verb_list.VERBS, **verb_list.GROUPS}
    assert declared.groups() == {*verb_list.GROUPS}
