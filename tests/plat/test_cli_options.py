"""`plat options`: what it says is what a run takes."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from plat.errors import SpecError
from plat.spec.composition.schema import schema_of, select
from plat.spec.expansion.experiment import build_run
from plat.trainer.finding import find_trainer

Verb = Callable[..., tuple[int, str, str]]


@pytest.fixture
def options(plat: Verb) -> Verb:
    """Run `plat options`."""
    return lambda *arguments: plat("options", *arguments)


def test_every_key_is_listed_with_the_default_of_a_run(options: Verb) -> None:
    code, out, _ = options("--json")
    listed = {(option["key"], option["needs"]): option for option in json.loads(out)["options"]}
    config = build_run([]).config
    assert code == 0
    for key in schema_of(find_trainer("embedded").config_type).leaves:
        option = listed[key, ""]
        if option["kind"] == "option":
            assert option["default"] == select(config, key), key


def test_the_options_of_a_script_are_easy_to_find(options: Verb) -> None:
    assert "plat options --trainer script" in options()[1].partition("\n")[0]
    code, out, _ = options("script.metrics")
    assert code == 0 and out.startswith("script.metrics")


def test_every_default_and_every_choice_is_accepted(options: Verb) -> None:
    for option in json.loads(options("--json")[1])["options"]:
        if option["kind"] != "option" or option["default"] is None or option["key"] in ("trainer", "scale", "device"):
            continue
        needs = [option["needs"]] if option["needs"] else []
        if needs == ["task=reasoning_gym"]:  # no stand-in plays it
            continue
        build_run([*needs, "model.base.version=v3", f"{option['key']}={json.dumps(option['default'])}"])


def test_limits_are_those_that_are_checked(options: Verb) -> None:
    option = json.loads(options("train.beta1", "--json")[1])["options"][0]
    assert option["limits"] == "at least 0, less than 1"
    build_run(["train.beta1=0"])
    with pytest.raises(SpecError):
        build_run(["train.beta1=1"])


def test_every_option_builder_and_check_has_a_meaning(plat: Verb) -> None:
    listed = json.loads(plat("options", "--json")[1])["options"]
    assert [option["key"] for option in listed if not option["means"]] == []
    units = {option["key"]: option["unit"] for option in listed}
    assert (units["train.iterations"], units["mi.every"], units["train.lr"]) == ("iterations", "iterations", "")


def test_one_option_is_explained(options: Verb) -> None:
    code, out, _ = options("filter.rule")
    assert code == 0 and "top_p_softmax" in out and "default" in out and "prompts that are kept" in out


def test_a_group_lists_its_choices_and_what_is_below_it(options: Verb) -> None:
    _, out, _ = options("filter")
    assert "bottom_k" in out and "filter.eps" in out and "train.lr" not in out


def test_options_of_an_environment_say_whose_they_are(options: Verb) -> None:
    _, out, _ = options("task.env.boxes")
    assert "task=sokoban" in out
    build_run(["task=sokoban", "task.env.boxes=1"])


@pytest.mark.parametrize("name", ["peak_success_table", "mean_delta_positive"])
def test_builders_and_checks_are_explained_with_their_arguments(options: Verb, name: str) -> None:
    code, out, _ = options(name)
    assert code == 0 and "arguments" in out and "treatment" in out
    assert ["columns", "str", "|", "Sequence[str]", "'task'"] in [line.split() for line in out.splitlines()], (
        "its type and its default"
    )


@pytest.mark.parametrize(("name", "near"), [("filter.rul", "filter.rule"), ("peak_sucess_table", "peak_success_table")])
def test_a_misspelt_name_gets_the_nearest(options: Verb, name: str, near: str) -> None:
    code, out, err = options(name)
    assert code == 2 and near in err and not out
    assert options("--trainer", "embeded")[0] == 2
