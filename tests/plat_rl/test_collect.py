"""Training batches: no instance is played twice in a run, whatever is refilled."""

from __future__ import annotations

import numpy as np
from scipy import stats

from plat_rl.embedded import train
from plat_rl.embedded.evaluate import evaluate
from plat_rl.embedded.train import Collector
from plat_rl.environments import make_environments
from plat_rl.loop.randomness import FixedInstances, training_seeds


def test_twelve_refills_of_every_step_play_instances_of_their_own(compose, policy, monkeypatch):
    """One token is no answer: all returns are equal, so every refill is used up and the batch is empty in the end."""
    config = compose("task=frozenlake", "algorithm=dapo", "algorithm.max_refills=12", "task.response_tokens=1")
    played, real = [], train.rollout

    def recording(weights, tokenizer, episodes, sampling, key):
        played.append((key, list(episodes.seeds), list(episodes.noises)))
        return real(weights, tokenizer, episodes, sampling, key)

    monkeypatch.setattr(train, "rollout", recording)
    collector = Collector(config, policy.tokenizer)
    for step in (1, 2, 3):
        batch = collector.rollout(policy.weights, step)
        left, metrics = collector.replace_uninformative(policy.weights, batch, step)
        assert metrics == {"rollout/refills": 12.0, "rollout/informative_prompts": 0.0}
        assert left.trajectories == 0
    size = config.train.group_size
    groups = [(tuple(seeds[at : at + size]), noises[at : at + size]) for _, seeds, noises in played for at in (0, size)]
    assert len(groups) == 3 * 13 * config.train.prompts
    assert all(len(set(seeds)) == 1 and noises == list(range(size)) for seeds, noises in groups)
    assert len({seeds for seeds, _ in groups}) == len(groups)
    assert len({key for key, *_ in played}) == len(played)


def test_a_refill_gives_the_informative_prompts_back(compose, policy):
    """At most P prompts, each with spread in its returns and groups that keep together."""
    config = compose("task=frozenlake", "algorithm=dapo", "train.prompts=4", "train.group_size=3")
    collector = Collector(config, policy.tokenizer)
    batch, metrics = collector.replace_uninformative(policy.weights, collector.rollout(policy.weights, 1), 1)
    returns = batch.returns.reshape(-1, 3)
    assert len(returns) == metrics["rollout/informative_prompts"] <= 4
    assert (returns.max(1) > returns.min(1)).all()
    groups = batch.group.reshape(-1, 3)
    assert (groups == groups[:, :1]).all() and len(np.unique(groups)) == len(groups)


def test_prompts_of_a_rollout_are_the_seeds_of_its_block(compose, policy):
    config = compose("task=frozenlake", "seed=2", "train.prompts=3")
    batch = Collector(config, policy.tokenizer).rollout(policy.weights, 5)
    firsts = [batch.prompts[number] for number in batch.prompt_of_row[batch.turn_of_row == 0]]
    (environment,) = make_environments(config, "train", 1)
    wanted = [tuple(policy.tokenizer.prompt(environment.reset(seed))) for seed in training_seeds(2, 5, 0, 3)]
    assert firsts == [prompt for prompt in wanted for _ in range(4)]


def test_reward_noise_is_zero_mean_gaussian_on_each_return_and_on_nothing_else(compose, policy):
    options = ("task=sokoban", "train.prompts=64", "train.group_size=16")
    plain = Collector(compose(*options), policy.tokenizer).rollout(policy.weights, 3)
    noisy = Collector(compose(*options, "task.reward_noise=0.5"), policy.tokenizer).rollout(policy.weights, 3)
    noise = noisy.returns - plain.returns
    assert stats.kstest(noise, stats.norm(0, 0.5).cdf).pvalue > 0.01
    assert abs(np.corrcoef(noise, plain.returns)[0, 1]) < 0.1
    changed = noisy.rewards != plain.rewards
    assert changed.sum() == plain.trajectories, "one turn of each trajectory"
    last = {number: turn for number, turn in zip(plain.trajectory_of_row, plain.turn_of_row, strict=True)}
    assert all(plain.turn_of_row[row] == last[plain.trajectory_of_row[row]] for row in np.flatnonzero(changed))
    for name in ("responses", "success", "log_probs", "turn_of_row", "format_valid", "actions"):
        assert np.array_equal(getattr(noisy, name), getattr(plain, name)), name


def test_reward_noise_is_drawn_anew_for_each_step_and_refill_and_never_in_evaluation(compose, policy):
    config = compose("task=frozenlake", "task.reward_noise=2", "algorithm=dapo")
    collector = Collector(config, policy.tokenizer)
    first, again, later = (collector.rollout(policy.weights, step) for step in (1, 1, 2))
    assert np.array_equal(first.rewards, again.rewards)
    refilled = collector._rollout(policy.weights, 1, 1, config.train.prompts)
    drawn = [np.round(batch.returns % 1, 9).tolist() for batch in (first, later, refilled)]
    assert len({value for values in drawn for value in values}) == 3 * first.trajectories
    instances = FixedInstances(config, "validation", 4)
    scores = [
        evaluate(policy.weights, policy.tokenizer, asked, instances)[0]
        for asked in (config, compose("task=frozenlake", "algorithm=dapo"))
    ]
    assert scores[0] == scores[1]
