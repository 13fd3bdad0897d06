"""The filter on a real batch: what is random is a function of seed and step, and every control keeps equally many."""

from __future__ import annotations

import numpy as np
import pytest

from plat_rl.loop.prompt_selection import filter_batch
from plat_rl.loop.randomness import SELECTING, generator
from plat_rl.rl.filter.selection import top_p_count

PROMPTS, GROUP = 12, 4
DROPS = {"drop_failed": {0}, "drop_solved": {GROUP}, "mixed": {0, GROUP}}  # filter -> numbers of solved trajectories


@pytest.fixture(scope="module")
def batch(compose, play):
    """Twelve prompts of FrozenLake, a group of four each, played by the tiny base model."""
    return play(compose("task=frozenlake"), groups=PROMPTS, size=GROUP)


def kept_prompts(batch, config, seed=0, step=1):
    selection, trajectories = filter_batch(batch, config.filter, GROUP, generator(SELECTING, seed, step))
    assert trajectories.tolist() == [p * GROUP + member for p in selection.kept for member in range(GROUP)]
    return selection.kept.tolist()


def test_random_is_a_function_of_seed_and_step(compose, batch):
    config = compose("task=frozenlake", "filter=random")
    drawn = {(seed, step): kept_prompts(batch, config, seed, step) for seed in range(3) for step in range(1, 5)}
    assert all(len(kept) == PROMPTS // 2 for kept in drawn.values())
    assert len({tuple(kept) for kept in drawn.values()}) > 9
    assert drawn == {key: kept_prompts(batch, config, *key) for key in drawn}


@pytest.mark.parametrize("name", ["random", "length", "bottom_k", "top_k"])
def test_a_control_keeps_as_many_as_top_p(compose, batch, name):
    count = top_p_count(batch.returns.reshape(-1, GROUP))
    config = compose("task=frozenlake", f"filter={name}", "filter.kept=as_top_p")
    top_p = kept_prompts(batch, compose("task=frozenlake", "filter=top_p"))
    assert 0 < count < PROMPTS
    assert len(kept_prompts(batch, config)) == len(top_p) == count
    assert (kept_prompts(batch, config) == top_p) == (name == "top_k")


def test_prompts_that_all_failed_or_all_solved_are_dropped(compose, batch):
    solved = batch.success.reshape(-1, GROUP).sum(1)
    kept = {name: kept_prompts(batch, compose("task=frozenlake", f"filter={name}")) for name in DROPS}
    assert len(set(solved.tolist()) & {0, GROUP}) > 0, "the batch has such prompts"
    for name, drops in DROPS.items():
        assert kept[name] == [p for p in range(PROMPTS) if solved[p] not in drops]


def test_length_keeps_the_longest_responses(compose, batch):
    lengths = batch.per_trajectory(batch.response_length.astype(float)).reshape(-1, GROUP).mean(1)
    kept = kept_prompts(batch, compose("task=frozenlake", "filter=length"))
    assert len(kept) == PROMPTS // 2
    assert lengths[kept].min() >= np.delete(lengths, kept).max()
