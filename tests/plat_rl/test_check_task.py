"""A task with too few problems for its evaluations is refused before anything runs, and counted as a run counts it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from plat.errors import SpecError
from plat_rl.loop import check_task
from plat_rl.loop.check_task import check_instances
from plat_rl.loop.randomness import FixedInstances
from plat_rl.run_config import RunConfig


def config_with(env: dict[str, Any], instances: int, heldout: int, task: str = "frozenlake") -> RunConfig:
    config = RunConfig()
    return replace(
        config,
        task=replace(config.task, name=task, env=env),
        eval=replace(config.eval, instances=instances, heldout=heldout),
    )


def test_too_few_problems_are_counted_as_the_run_counts_them() -> None:
    """The oracle is what the trainers themselves build when a run starts."""
    config = config_with({"size": 2}, instances=8, heldout=0)
    with pytest.raises(SpecError) as early:
        check_instances(config)
    with pytest.raises(SpecError) as late:
        FixedInstances(config, "validation", 8)
    assert str(early.value) == str(late.value) and "7 different problems for validation, 8 are asked" in str(
        early.value
    )
    assert early.value.where == "eval.instances" and str(early.value.fix).startswith("eval.instances=7")


def test_the_mend_is_accepted() -> None:
    config = config_with({"size": 2}, instances=7, heldout=0)
    check_instances(config)
    assert len(FixedInstances(config, "validation", 7).problems) == 7


def test_a_split_without_any_problem_names_its_option() -> None:
    with pytest.raises(SpecError) as error:
        check_instances(config_with({"size": 2}, instances=7, heldout=8))
    assert error.value.where == "eval.heldout" and "eval.heldout=0" in str(error.value.fix)


def test_what_must_be_downloaded_is_not_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*arguments: object) -> None:
        raise AssertionError("the network was asked for")

    monkeypatch.setattr("plat_envs.data.hub_rows", refuse)
    check_instances(config_with({"data": "hub"}, instances=256, heldout=256, task="metamathqa"))


def test_what_takes_too_long_to_count_is_left_to_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(check_task, "PATIENCE", -1.0)
    check_instances(config_with({"size": 2, "frozen": 0.9}, instances=9, heldout=0))
