"""DAPO's dynamic sampling: what is dropped, what is asked for, and that it always ends."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from plat_rl.loop.prompt_selection import refill, uninformative
from plat_rl.rl.config import AlgorithmConfig
from plat_rl.run_config import RunConfig, TrainConfig

GROUP = 4


def test_only_prompts_with_equal_returns_are_uninformative():
    assert uninformative([[0, 0, 0], [0, 1, 0], [1, 1, 1], [0.3, 0.1 + 0.2, 0.3]]).tolist() == [True, False, True, True]
    assert uninformative([[5.0]]).tolist() == [True]


def rollout(informative):
    return SimpleNamespace(
        returns=np.array([float(useful and member == 0) for useful in informative for member in range(GROUP)])
    )


def refilled(rollouts, max_refills, prompts):
    """The prompts that are kept, counted through the rollouts, and the number of fresh prompts of each refill."""
    asked = []

    def roll_out(number, fresh):
        asked.append(fresh)
        return rollout(rollouts[number])

    config = RunConfig(
        train=TrainConfig(prompts=prompts, group_size=GROUP), algorithm=AlgorithmConfig(max_refills=max_refills)
    )
    batches, kept, metrics = refill(rollout(rollouts[0]), roll_out, config)
    assert len(batches) == 1 + len(asked) == 1 + metrics["rollout/refills"]
    assert metrics["rollout/informative_prompts"] * GROUP == len(kept)
    chosen = kept.reshape(-1, GROUP)
    assert (chosen == chosen[:, :1] + range(GROUP)).all()
    return (chosen[:, 0] // GROUP).tolist(), asked


@given(st.integers(1, 8), st.integers(0, 4), st.randoms())
def test_the_batch_fills_up_or_the_refills_run_out(prompts, max_refills, random):
    rollouts = [[random.random() < 0.5 for _ in range(prompts)]]
    for _ in range(max_refills):
        rollouts.append([random.random() < 0.5 for _ in range(prompts - sum(map(sum, rollouts)))])
    chosen, asked = refilled(rollouts, max_refills, prompts)
    played = [useful for some in rollouts[: 1 + len(asked)] for useful in some]
    assert chosen == [number for number, useful in enumerate(played) if useful]
    assert len(chosen) == prompts or len(asked) == max_refills
    assert asked == [prompts - sum(map(sum, rollouts[:number])) for number in range(1, 1 + len(asked))]


def test_surplus_prompts_are_not_chosen():
    """A trainer may roll out more than it was asked for."""
    assert refilled([[False, True], [True, True, True]], 3, 2) == ([1, 2], [1])


def test_a_collapsed_policy_ends_with_an_empty_batch():
    assert refilled([[False] * 4] * 3, 2, 4) == ([], [4, 4])
