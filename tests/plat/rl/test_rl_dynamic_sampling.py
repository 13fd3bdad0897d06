"""DAPO's dynamic sampling: what is dropped, what is asked for, and that it always ends."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from plat.rl.dynamic_sampling import Refills, uninformative


def test_only_prompts_with_equal_returns_are_uninformative():
    assert uninformative([[0, 0, 0], [0, 1, 0], [1, 1, 1], [0.3, 0.1 + 0.2, 0.3]]).tolist() == [True, False, True, True]
    assert uninformative([[5.0]]).tolist() == [True]


def rollout(informative, group=4):
    return np.array([[0.0] * (group - 1) + [1.0 if useful else 0.0] for useful in informative])


@given(st.integers(1, 8), st.integers(0, 4), st.randoms())
def test_the_batch_fills_up_or_the_refills_run_out(prompts, max_refills, random):
    plan, rollouts, wanted = Refills(prompts, max_refills), [], prompts
    while wanted:
        rollouts.append([random.random() < 0.5 for _ in range(wanted)])
        wanted = plan.offer(rollout(rollouts[-1]))
        assert wanted in (0, prompts - len(plan.chosen))
    assert len(rollouts) == plan.rollouts <= 1 + max_refills
    assert plan.chosen == [(r, i) for r, some in enumerate(rollouts) for i, useful in enumerate(some) if useful]
    assert plan.dropped == sum(some.count(False) for some in rollouts)
    assert len(plan.chosen) == prompts or plan.rollouts == 1 + max_refills


def test_surplus_prompts_are_not_chosen():
    plan = Refills(2, 3)
    assert plan.offer(rollout([False, True])) == 1
    assert plan.offer(rollout([True, True, True])) == 0  # a trainer may roll out more than it was asked for
    assert plan.chosen == [(0, 1), (1, 0)]


def test_a_collapsed_policy_ends_with_an_empty_batch():
    plan = Refills(4, 2)
    assert [plan.offer(rollout([False] * 4)) for _ in range(3)] == [4, 4, 0]
    assert (plan.chosen, plan.dropped) == ([], 12)
