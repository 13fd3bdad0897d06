"""The declaration of a filter rule: its keyword parameters are what it reads."""

from __future__ import annotations

import sys

import pytest

from plat.errors import PluginError
from plat_rl.rl.config import FilterConfig
from plat_rl.rl.filter.rule import RULES, Part, find_rule, rule


@pytest.mark.parametrize("name", RULES)
def test_each_rule_is_a_function_of_its_name(name):
    found = find_rule(name)
    assert found.select.__name__ == name and sys.modules[found.select.__module__].__name__ == "plat_rl.rl.filter.rules"
    assert found.options(FilterConfig(rule=name)).keys() <= found.reads


def test_a_rule_that_declares_what_is_no_option_is_refused_with_its_line():
    def wrong(ranking, *, valu):
        return Part(0, int(valu))

    with pytest.raises(PluginError) as error:
        rule()(wrong)
    assert "'wrong': valu is not an option of filters" in error.value.what and "eps" in str(error.value.fix)
    assert str(error.value.where) == f"{__file__}:{wrong.__code__.co_firstlineno}"


def test_a_rule_that_declares_what_it_does_not_read_is_refused():
    def idle(ranking, *, value, eps):
        return Part(0, int(value))

    with pytest.raises(PluginError, match="'idle': eps is declared but never read"):
        rule()(idle)


def test_a_rule_is_given_what_it_declares_and_nothing_else():
    with pytest.raises(AttributeError):  # there is no config in reach of a rule
        find_rule("top_k").select(FilterConfig(rule="top_k"), value=0.5, at_least_one=True)


def test_a_rule_that_reads_what_it_does_not_declare_is_refused():
    def greedy(ranking, *, value):
        return Part(0, int(value + eps))  # noqa: F821

    with pytest.raises(PluginError, match="'greedy': eps is read but not declared"):
        rule()(greedy)
