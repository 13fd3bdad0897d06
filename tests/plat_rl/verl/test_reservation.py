"""Waiting for the nodes of a Ray cluster: what is enough, and what is said where it is not."""

from __future__ import annotations

from typing import Any

import pytest

from plat.errors import RunError
from plat_rl.verl.settings import models
from plat_rl.verl.settings.models import Reservation, wait_for_nodes


def node(gpus: float, cpus: float, alive: bool = True) -> dict[str, Any]:
    return {"Alive": alive, "Resources": {"GPU": gpus, "CPU": cpus}}


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(models, "TICK", 0.001)


def test_it_returns_as_soon_as_enough_nodes_are_there() -> None:
    answers = iter([[node(2, 6)], [node(2, 6), node(2, 6, alive=False)], [node(2, 6), node(2, 8)]])
    wait_for_nodes(Reservation(2, 2, 6), lambda: next(answers), within=60)
    assert next(answers, None) is None


def test_the_head_may_have_nothing_to_offer() -> None:
    wait_for_nodes(Reservation(2, 1, 3), lambda: [node(0, 0), node(1, 3), node(1, 3)], within=0)


@pytest.mark.parametrize(
    ("nodes", "said", "fix", "failure_class"),
    [
        ([node(2, 6)], "1 node: 2 GPUs and 6 CPUs", "the run's log says why", "node"),
        ([node(2, 6), node(2, 6, alive=False)], "1 node: 2 GPUs and 6 CPUs", "the run's log says why", "node"),
        ([], "0 nodes: nothing", "the run's log says why", "node"),
        (
            [node(2, 6), node(2, 5)],
            "2 GPUs and 6 CPUs; 2 GPUs and 5 CPUs",
            "cluster.threads=6 with --on slurm",
            "error",
        ),
        ([node(2, 6), node(1, 9)], "2 GPUs and 6 CPUs; 1 GPU and 9 CPUs", "cluster.gpus=2", "error"),
    ],
)
def test_what_is_missing_is_said_with_what_to_do(
    nodes: list[dict[str, Any]], said: str, fix: str, failure_class: str
) -> None:
    with pytest.raises(RunError) as error:
        wait_for_nodes(Reservation(2, 2, 6), lambda: nodes, within=0.01)
    assert "verl needs 2 nodes each with 2 GPUs and 6 CPUs" in error.value.what
    assert said in error.value.what and fix in str(error.value.fix) and error.value.failure_class == failure_class


def test_it_does_not_wait_for_nodes_that_cannot_come_any_more() -> None:
    looks: list[int] = []

    def nodes() -> list[dict[str, Any]]:
        looks.append(1)
        return [node(2, 6)]

    with pytest.raises(RunError, match=r"after 0 s"):
        wait_for_nodes(Reservation(2, 2, 6), nodes, within=3600, still_coming=lambda: len(looks) < 3)
    assert len(looks) == 4, "it looks once more after the news"
