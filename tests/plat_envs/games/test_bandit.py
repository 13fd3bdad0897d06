"""The optimum of the bandit is known, and nothing does better."""

from __future__ import annotations

import math

from plat_envs.api import make_environment
from plat_envs.policies import POLICIES, fixed_instances, successes


def pull(environment, arm):
    return environment.step(f"i will try this answer </think> <answer> {arm} </answer>")


def test_an_arm_pays_with_its_odds_by_the_chance_of_the_trajectory():
    environment = make_environment("bandit")
    for seed in range(4):
        environment.reset(seed)
        odds, paid = environment.odds, 0
        for noise in range(2000):
            environment.reset(seed, noise)
            assert environment.odds == odds
            paid += pull(environment, "e1")[1]
        sigma = math.sqrt(2000 * odds[1] / 10 * (1 - odds[1] / 10))
        assert abs(paid - 200 * odds[1]) < 4 * sigma
        environment.reset(seed, 7)
        first = pull(environment, "e1")
        environment.reset(seed, 7)
        assert pull(environment, "e1") == first


def test_only_arms_can_be_pulled():
    environment = make_environment("bandit", {"arms": 3, "turns": 3})
    assert environment.reset(1).split()[-3:] == [".", "3", "<think>"]
    for answer in ("e3", "", "e0 e1", "pull e0"):
        environment.reset(1)
        assert pull(environment, answer)[1] == -0.1 and not environment.done
    _, reward, _, info = pull(environment, "e0")
    assert info["format_valid"] and reward in (0.0, 1.0)


def test_policies_reach_what_their_arms_pay():
    environment, seeds = fixed_instances("bandit", {}, "heldout", 500)
    expected = {"optimal": [], "blind": []}
    for seed in seeds:
        environment.reset(seed)
        expected["optimal"].append(max(environment.odds) / 10)
        expected["blind"].append(environment.odds[0] / 10)
    share = {policy: sum(successes(environment, seeds, policy)) / 500 for policy in POLICIES}
    for policy, chances in expected.items():
        sigma = math.sqrt(sum(p * (1 - p) for p in chances)) / 500
        assert abs(share[policy] - sum(chances) / 500) < 4 * sigma
    assert sorted(POLICIES, key=share.__getitem__) == list(POLICIES)
