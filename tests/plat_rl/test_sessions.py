"""A run holds as many environments as its largest batch, closes what it no longer needs, and names what fails."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from plat.errors import RunError, SpecError
from plat.runner.failures import classify
from plat_envs.api import EnvironmentSpec, find_environment
from plat_envs.environment_errors import BadEnvironment, ServiceError
from plat_envs.questions.countdown import CountdownConfig
from plat_rl.embedded.rollout import Episodes, Sampling, rollout
from plat_rl.environments import Sessions


class Counted:
    """Counts how many of its kind are open."""

    instructions, open, made = "", 0, 0

    def __init__(self, split: str) -> None:
        self.problem = split
        Counted.open += 1
        Counted.made += 1

    def reset(self, seed: int, noise: int = 0) -> str:
        return f"count {seed} <think>"

    def step(self, text: str):
        return "", 1.0, True, {"success": True, "format_valid": True}

    def close(self) -> None:
        Counted.open -= 1


@pytest.fixture
def sessions(compose, monkeypatch):
    config = compose("task=countdown")
    spec = EnvironmentSpec("counted", CountdownConfig, lambda config, split, rendering: Counted(split), "1")
    monkeypatch.setattr("plat_rl.environments.find_environment", lambda name: spec)
    Counted.open = Counted.made = 0
    return Sessions(config)


def test_sessions_are_used_again_and_closed_for_another_split(sessions):
    with sessions.lease("train", 4) as first:
        assert Counted.open == sessions.live == 4
    with sessions.lease("train", 3) as again:
        assert set(again) <= set(first) and Counted.open == 3
    with sessions.lease("heldout", 5) as others:
        assert {environment.problem for environment in others} == {"heldout"} and Counted.open == sessions.live == 5
    sessions.close()
    assert Counted.open == sessions.live == 0 and Counted.made == 9


def test_leases_at_the_same_time_share_nothing(sessions):
    with sessions.lease("train", 2) as first, sessions.lease("train", 2) as second:
        assert not set(first) & set(second) and Counted.open == 4
    with sessions.lease("train", 4):
        assert Counted.made == 4


def test_sessions_of_a_failed_batch_are_closed(sessions):
    with pytest.raises(KeyError), sessions.lease("train", 2):
        raise KeyError("state unknown")
    assert Counted.open == sessions.live == 0


def test_all_are_closed_if_one_cannot_be_closed(sessions, monkeypatch):
    with sessions.lease("train", 3) as leased:
        monkeypatch.setattr(leased[1], "close", lambda: 1 / 0, raising=False)
    with pytest.raises(ZeroDivisionError):
        sessions.close()
    assert Counted.open == 1 and sessions.live == 0


def test_a_service_that_does_not_answer_is_a_failure_of_the_run(sessions):
    with pytest.raises(RunError) as raised, sessions.lease("train", 1):
        raise ServiceError("the server does not answer", where="http://127.0.0.1:1", fix="start it")
    assert raised.value.failure_class == "service" and raised.value.fix == "start it"
    assert classify(raised.value)[0] == "failed:service"
    with pytest.raises(SpecError), sessions.lease("train", 1):
        raise BadEnvironment("a wrong option")


def test_so_is_a_service_that_is_away_when_a_session_is_made(compose, monkeypatch):
    def make(*_):
        raise ServiceError("the server does not answer")

    monkeypatch.setattr(
        "plat_rl.environments.find_environment", lambda name: replace(find_environment("countdown"), make=make)
    )
    with pytest.raises(RunError) as raised, Sessions(compose("task=countdown")).lease("train", 1):
        pass
    assert raised.value.failure_class == "service"


@pytest.mark.parametrize(("path", "concurrent"), [("", False), ("a file", True)])
def test_an_environment_says_by_its_config_whether_sessions_wait_together(compose, monkeypatch, path, concurrent):
    config = compose("task=metamathqa")
    spec = replace(find_environment("metamathqa"), concurrent=lambda options: path != "")
    monkeypatch.setattr("plat_rl.environments.find_environment", lambda name: spec)
    assert Sessions(config).concurrent == concurrent


def test_concurrent_environments_wait_together_and_change_nothing(policy):
    from threading import Barrier

    class Waiting(Counted):
        barrier = Barrier(4)

        def step(self, text: str):
            self.barrier.wait(timeout=20)  # passes only when all four are in their step at once
            return super().step(text)

    def played(kind, concurrent):
        environments = [kind("train") for _ in range(4)]
        episodes = Episodes(environments, range(4), [0] * 4, np.arange(4), concurrent)
        return rollout(policy.weights, policy.tokenizer, episodes, Sampling(1, 8, 1.0), ("training", 0))

    together, alone = played(Waiting, True), played(Counted, False)
    assert np.array_equal(together.responses, alone.responses) and together.prompts == alone.prompts
