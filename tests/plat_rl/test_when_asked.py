"""What a run measures only when asked: a run that does not ask is the same, and one that asks learns the same."""

from __future__ import annotations

from fnmatch import fnmatchcase
from statistics import fmean, stdev

import numpy as np
import pytest

from plat_rl.embedded import train as training
from plat_rl.embedded.train import train
from plat_rl.environments import make_environments
from plat_rl.metric_names import METRICS


@pytest.fixture(scope="module")
def both(compose, memory_io):
    """`both("key=value", ...)`: the records of a run that does not ask, of one that does, and what is new in it.

    Everything else, the final weights included, must be the same to the bit.
    """

    def run(*asked, base=("task=sokoban",)):
        plain, with_more = memory_io(), memory_io()
        train(compose(*base), plain)
        train(compose(*base, *asked), with_more)
        new = {key: value for key, value in with_more.history().items() if key not in plain.history()}
        assert {key: value for key, value in with_more.history().items() if key not in new} == plain.history()
        assert {key: value for key, value in with_more.tables.items() if key in plain.tables} == plain.tables
        assert with_more.final() == plain.final()
        assert all(any(fnmatchcase(name, metric) for metric in METRICS) for name, _ in new)
        return with_more, new

    return run


def test_metrics_of_prompts(both):
    io, new = both("train.prompt_metrics=true")
    assert len(new) == 2 * 9 and {step for _, step in new} == {1, 2}
    for step in (1, 2):
        variances = np.var(io.tables["reward_matrix", step], axis=1, ddof=1)
        assert io.metrics["rollout/reward_var_max", step] == pytest.approx(variances.max(), abs=1e-6)
        counted = [io.metrics[f"rollout/{kind}_prompts", step] for kind in ("easy", "mixed", "hard")]
        assert sum(counted) == len(variances)


@pytest.mark.parametrize("context", ["current", "full"])
def test_a_trajectory_that_was_kept_can_be_played_again(both, compose, context):
    """The environment, asked what the policy said, gives the observations, rewards and success that were kept."""
    io, new = both("eval.trajectories=5", base=("task=sokoban", f"train.context={context}"))
    assert not new
    for step in (0, 1, 2):
        kept, instances = io.tables["val_trajectories", step], io.tables["val_instances", step]
        assert len(kept) == 5
        for number, trajectory in enumerate(kept):
            (environment,) = make_environments(compose("task=sokoban"), "validation", 1)
            seen, success = environment.reset(trajectory["seed"], number), False
            for observation, response, reward in trajectory["turns"]:
                assert observation == seen
                seen, given, _, info = environment.step(response)
                success = bool(info["success"])
                assert reward == pytest.approx(given, abs=1e-6)
            assert success == trajectory["success"] == instances["success"][number]
            assert len(trajectory["turns"]) == instances["turns"][number]


def test_an_attempt_after_a_kill_keeps_the_same_trajectories(compose, memory_io):
    config = compose("task=frozenlake", "eval.trajectories=4", "train.iterations=3")
    whole, killed = memory_io(), memory_io(1)
    train(config, whole)
    assert train(config, killed).kind == "interrupted"
    resumed = killed.resumed()
    train(config, resumed)
    assert resumed.tables == whole.tables


PROBE = ("gradient.prompts=6", "gradient.group_size=4", "gradient.buckets=3", "gradient.times=2")


@pytest.mark.parametrize("algorithm", ["ppo", "grpo"])
def test_gradients_by_halves(both, algorithm):
    _, new = both(*PROBE, "gradient.halves=true", base=("task=sokoban", f"algorithm={algorithm}"))
    assert {step for _, step in new} == {1, 2} and all(name.startswith("grad/q") for name, _ in new)
    assert {f"grad/q{q}/{name}" for q in (1, 2, 3) for name in ("null_task", "halves_inner", "regulariser")} <= {
        name for name, _ in new
    }
    _, plain = both(*PROBE, base=("task=sokoban", f"algorithm={algorithm}"))
    assert plain.items() < new.items() and {name.split("/")[2] for name, _ in plain} >= {"task", "prompts"}


def test_swapped_and_blanked_reasonings(both):
    io, new = both("eval.reasoning_swap=true")
    assert {step for _, step in new} == {0, 1, 2} and len(new) == 3 * 8
    for step in (0, 1, 2):
        for name in ("swapped", "blanked"):
            results = io.tables[f"val_{name}", step]
            assert len(results["success"]) == len(io.tables["val_instances", step]["success"])
            assert np.mean(results["success"]) == pytest.approx(io.metrics[f"val/success_{name}", step])


def test_mutual_information_of_each_turn(both):
    _, new = both("mi.turns=3")
    assert {step for _, step in new} == {1, 2}
    assert {name.split("/")[1] for name, _ in new} == {"turn_1", "turn_2", "turn_3"}


def test_an_attempt_after_a_kill_measures_the_same_of_each_turn(compose, memory_io):
    """The moving averages of each turn go through the checkpoint."""
    config = compose("task=sokoban", "mi.turns=2", "train.iterations=3")
    whole, killed = memory_io(), memory_io(1)
    train(config, whole)
    assert train(config, killed).kind == "interrupted"
    resumed = killed.resumed()
    train(config, resumed)
    assert resumed.history() == whole.history()
    assert resumed.metrics["mi/turn_2/mi_zscore_ema", 3] != resumed.metrics["mi/turn_2/mi_zscore", 3]


def test_a_precheck_of_the_base_model(both):
    io, new = both("train.precheck=7", "train.prompt_metrics=true")
    before = {name: value for (name, step), value in new.items() if name.startswith("precheck/")}
    assert before.keys() >= {"precheck/success", "precheck/rv_std", "precheck/easy_prompts"}
    assert all(step == 0 for name, step in new if name in before)
    deviations = [stdev(row) for row in io.tables["precheck", 0]["rewards"]]
    assert len(deviations) == 7
    assert io.metrics["precheck/reward_std", 0] == pytest.approx(fmean(deviations), abs=1e-5)
    assert io.metrics["precheck/rv_std", 0] == pytest.approx(stdev(deviations), abs=1e-5)
    assert io.metrics["precheck/rv_std_over_mean", 0] == pytest.approx(stdev(deviations) / fmean(deviations), abs=1e-5)


def test_rollouts_alone_are_a_run(compose, memory_io, monkeypatch):
    """Without iterations nothing is trained on; the batch is the same as before a training, and no training batch."""
    alone, trained = memory_io(), memory_io()
    played, real = [], training.rollout

    def recording(weights, tokenizer, episodes, sampling, key):
        played.append(set(episodes.seeds))
        return real(weights, tokenizer, episodes, sampling, key)

    monkeypatch.setattr(training, "rollout", recording)
    assert train(compose("train.precheck=6", "train.iterations=0"), alone).kind == "finished"
    assert len(played) == 1 and len(played[0]) == 6
    train(compose("train.precheck=6", "gradient.times=1", "gradient.prompts=6"), trained)
    assert alone.tables["precheck", 0] == trained.tables["precheck", 0]
    assert all(played[1].isdisjoint(seeds) for seeds in played[2:]) and len(played) == 5
    assert ("precheck/success", 0) in alone.metrics and not [name for name, _ in alone.metrics if "rollout/" in name]
    other = memory_io()
    train(compose("train.precheck=6", "train.iterations=0", "seed=1"), other)
    assert other.tables["precheck", 0] != alone.tables["precheck", 0]
