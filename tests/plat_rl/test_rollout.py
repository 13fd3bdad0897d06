"""Rollouts: a function of their key, true to the policy that is said to have spoken, and replayable in the game."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from plat_rl.embedded import generate as generation
from plat_rl.embedded.evaluate import evaluate
from plat_rl.embedded.rollout import Episodes, Sampling, rollout
from plat_rl.environments import make_environments
from plat_rl.loop.randomness import FixedInstances

ARRAYS = ("prompt_of_row", "responses", "response_length", "reasoning_length", "log_probs", "entropies", "rewards")
FULL = ("train.context=full",)
METRICS = {"success", "return", "turns", "actions_per_turn", "moves_per_turn", "format_valid", "response_tokens"}


@pytest.fixture(params=[(), FULL], ids=["current", "full"])
def config(request, compose):
    return compose("task=frozenlake", *request.param)


def rows_of(batch, trajectory):
    return np.flatnonzero(batch.trajectory_of_row == trajectory)


def test_the_same_key_gives_the_same_batch_another_key_another(config, play):
    batch, same, other = play(config), play(config), play(config, key=("training", 2))
    assert batch.prompts == same.prompts
    for name in ARRAYS:
        assert np.array_equal(getattr(batch, name), getattr(same, name)), name
    assert not np.array_equal(batch.responses[:3, :4], other.responses[:3, :4])


def test_members_of_a_group_share_the_first_prompt_and_differ(config, play):
    batch = play(config)
    first = [batch.prompt_of_row[rows_of(batch, n)[0]] for n in range(6)]
    assert first == [first[0]] * 3 + [first[3]] * 3 and first[0] != first[3]
    assert len({tuple(batch.responses[rows_of(batch, n)[0]]) for n in range(3)}) > 1


@pytest.mark.parametrize("temperature", [1.0, 0.6])
def test_recorded_log_probs_and_entropies_are_those_of_transformers(config, play, policy, temperature):
    batch = play(config, temperature=temperature)
    with torch.no_grad():
        for row in range(len(batch.turn_of_row)):
            prompt, length = batch.prompts[batch.prompt_of_row[row]], int(batch.response_length[row])
            response = torch.from_numpy(batch.responses[row, :length])
            whole = torch.cat((torch.tensor(prompt), response))[None]
            logs = F.log_softmax(policy.reference(whole).logits[0, len(prompt) - 1 : -1] / temperature, -1)
            wanted = logs.gather(-1, response[:, None])[:, 0].numpy()
            np.testing.assert_allclose(batch.log_probs[row, :length], wanted, atol=1e-4)
            entropies = -(logs.exp() * logs).sum(-1).numpy()
            np.testing.assert_allclose(batch.entropies[row, :length], entropies, atol=1e-4)


def test_a_trajectory_does_not_depend_on_its_companions(config, play):
    """Same place, same key, other instances beside it."""
    here = 2
    seeds = [7, 7, 7, 8, 8, 8]
    others = [seed if n == here else seed + 50 for n, seed in enumerate(seeds)]
    batch, other = play(config, seeds=seeds), play(config, seeds=others)
    mine, again = rows_of(batch, here), rows_of(other, here)
    assert len(mine) == len(again)
    for a, b in zip(mine, again, strict=True):
        length = batch.response_length[a]
        assert batch.prompts[batch.prompt_of_row[a]] == other.prompts[other.prompt_of_row[b]]
        assert length == other.response_length[b]
        assert np.array_equal(batch.responses[a, :length], other.responses[b, :length])
        np.testing.assert_allclose(batch.log_probs[a, :length], other.log_probs[b, :length], atol=1e-4)


def test_a_trajectory_does_not_depend_on_how_many_there_are(config, play):
    few, many = play(config, groups=2), play(config, groups=7)
    for n in range(6):
        mine, same = rows_of(few, n), rows_of(many, n)
        assert few.response_length[mine].tolist() == many.response_length[same].tolist()
        for a, b in zip(mine, same, strict=True):
            length = few.response_length[a]
            assert np.array_equal(few.responses[a, :length], many.responses[b, :length])


def test_dropping_ended_rows_early_changes_nothing(config, play, monkeypatch):
    batch = play(config)
    monkeypatch.setattr(generation, "_ENOUGH_LEFT", 0.0)
    other = play(config)
    assert batch.prompts == other.prompts and np.array_equal(batch.responses, other.responses)
    np.testing.assert_allclose(batch.log_probs, other.log_probs, atol=1e-4)


def test_decoding_few_rows_at_a_time_changes_nothing(config, play, monkeypatch):
    together = play(config)
    monkeypatch.setattr(generation, "_ROWS_AT_ONCE", 2)
    apart = play(config)
    assert together.prompts == apart.prompts
    assert np.array_equal(together.responses, apart.responses)
    assert np.array_equal(together.response_length, apart.response_length)
    np.testing.assert_allclose(together.log_probs, apart.log_probs, atol=1e-4)
    np.testing.assert_allclose(together.entropies, apart.entropies, atol=1e-4)


def test_a_response_ends_with_eos_or_at_the_limit(config, play, policy):
    batch = play(config, tokens=14, groups=4, size=4)
    eos, ends = policy.tokenizer.eos, set()
    for row in range(len(batch.turn_of_row)):
        length = int(batch.response_length[row])
        response = batch.responses[row]
        assert eos not in response[: length - 1]
        assert response[length - 1] == eos or length == 14
        assert not response[length:].any() and not batch.log_probs[row, length:].any()
        ends.add(response[length - 1] == eos)
    assert ends == {True, False}


def test_the_game_replayed_from_the_responses_is_the_same(config, play, policy):
    batch = play(config)
    tokenizer = policy.tokenizer
    for n, player in enumerate(make_environments(config, "train", 6)):
        text = player.reset(7 + n // 3, n % 3)
        history, info = tokenizer.prompt(text), {}
        rows = rows_of(batch, n)
        for row in rows:
            assert batch.prompts[batch.prompt_of_row[row]] == tuple(history)
            response = batch.responses[row, : batch.response_length[row]].tolist()
            spoken = response[:-1] if response[-1] == tokenizer.eos else response
            text, reward, done, info = player.step(tokenizer.decode(spoken))
            assert batch.rewards[row] == reward
            assert batch.format_valid[row] == info["format_valid"]
            assert (batch.actions[row], batch.moves[row]) == (info["actions"], info["moves"])
            assert done == (row == rows[-1])
            if config.train.context == "full":
                history = [*history, *spoken, tokenizer.eos, *tokenizer.encode(text)]
            else:
                history = tokenizer.prompt(text)
        assert batch.success[n] == info["success"]
        assert batch.returns[n] == pytest.approx(sum(batch.rewards[rows]))


def test_full_context_carries_the_whole_history(compose, play):
    config = compose("task=frozenlake", *FULL)
    batch = play(config)
    later = [row for row in range(len(batch.turn_of_row)) if batch.turn_of_row[row] > 0]
    assert later
    for row in later:
        before = row - 1
        prompt, previous = (batch.prompts[batch.prompt_of_row[index]] for index in (row, before))
        response = tuple(batch.responses[before, : batch.response_length[before]].tolist())
        assert prompt[: len(previous) + len(response)] == previous + response


def test_reasoning_lengths_and_grammar(compose, play, policy):
    batch = play(compose("task=sokoban"), groups=4, size=4)
    close = policy.tokenizer.encode("</think>")[0]
    for row, length in enumerate(batch.reasoning_length):
        response = batch.responses[row, : batch.response_length[row]].tolist()
        assert length == (response.index(close) if close in response else -1)
        if batch.reasoning_level[row] >= 0:
            assert length > 0
    assert (batch.reasoning_level >= 0).any()


def test_temperature_zero_is_greedy(compose, play, policy):
    batch = play(compose("task=countdown"), temperature=0.0)
    assert not batch.log_probs.any() and not batch.entropies.any()
    for row in range(len(batch.turn_of_row)):
        ids = list(batch.prompts[batch.prompt_of_row[row]])
        with torch.no_grad():
            for wanted in batch.responses[row, : batch.response_length[row]]:
                ids.append(int(policy.reference(torch.tensor([ids])).logits[0, -1].argmax()))
                assert ids[-1] == wanted


def test_a_lower_temperature_is_more_certain(compose, play):
    config = compose("task=countdown")

    def entropy(temperature: float) -> float:
        batch = play(config, 8, 8, temperature=temperature)
        return float(batch.entropies.sum() / batch.response_length.sum())

    assert entropy(0.3) < entropy(1.0) < entropy(2.0)


def test_tokens_are_drawn_with_their_probabilities(compose, policy):
    """First tokens of 4,000 responses to one prompt, against the policy's distribution."""
    (player,) = make_environments(compose("task=countdown"), "train", 1)
    prompt = tuple(policy.tokenizer.prompt(player.reset(0)))
    count = 4000
    chances = torch.rand(count, 1, generator=torch.Generator().manual_seed(0)).numpy()
    rows = np.zeros(count, dtype=np.int64)
    ids, *_ = generation.generate(policy.weights, policy.tokenizer, [prompt], rows, chances, 1.0)
    with torch.no_grad():
        wanted = policy.reference(torch.tensor([prompt])).logits[0, -1].softmax(-1).numpy()
    shares = np.bincount(ids[:, 0], minlength=len(wanted)) / count
    error = np.sqrt(wanted * (1 - wanted) / count)
    assert bool((np.abs(shares - wanted) < 4.5 * error + 2 / count).all())


# --- evaluation -------------------------------------------------------------------------------------------------------


def test_evaluation_is_a_function_of_policy_split_and_seed(compose, policy):
    config = compose("task=frozenlake", "eval.instances=6", "eval.heldout=6")
    evaluations = {}
    for split in ("validation", "heldout", "validation"):
        metrics, batch = evaluate(policy.weights, policy.tokenizer, config, FixedInstances(config, split, 6))
        assert set(metrics) == METRICS
        firsts = [batch.prompts[number] for number in batch.prompt_of_row[batch.turn_of_row == 0]]
        assert len(set(firsts)) == 6
        if split in evaluations:
            assert evaluations[split] == (metrics, firsts)
        evaluations[split] = metrics, firsts
    assert not set(evaluations["validation"][1]) & set(evaluations["heldout"][1])


def test_an_environment_need_not_count_its_actions(compose, policy):
    """Its info may leave them out: a turn with a valid format then is one action that was a move."""

    class Silent:
        instructions = ""

        def reset(self, seed, noise=0):
            return "countdown 1 2 3 _ = 6 <think>"

        def reasoning_level(self, reasoning):
            return None

        def step(self, text):
            return "", 0.0, True, {"success": False, "format_valid": len(text) % 2 == 0}

    episodes = Episodes([Silent()] * 16, range(16), [0] * 16, np.arange(16))
    batch = rollout(policy.weights, policy.tokenizer, episodes, Sampling(1, 8, 1.0), ("training", 0))
    assert 0 < batch.format_valid.sum() < 16
    assert np.array_equal(batch.actions, batch.format_valid) and np.array_equal(batch.moves, batch.format_valid)


def test_each_token_has_its_cost(compose, play):
    free, costly = (play(compose("task=sokoban"), groups=3, size=4, token_cost=cost) for cost in (0.0, 0.01))
    assert np.array_equal(free.responses, costly.responses)
    assert np.allclose(costly.rewards, free.rewards - 0.01 * free.response_length, rtol=0, atol=1e-12)


@pytest.mark.parametrize("bad", ["reset", "step"])
def test_an_environment_that_runs_out_of_something_ends_the_run(policy, compose, monkeypatch, bad):
    """A StopIteration is an error, not the end of the episodes: a mean over the others would be a wrong number."""
    environments = make_environments(compose("task=frozenlake"), "train", 3)
    monkeypatch.setattr(environments[2], bad, lambda *given: next(iter(())))
    episodes = Episodes(environments, [0, 1, 2], [0] * 3, np.arange(3))
    with pytest.raises(StopIteration):
        rollout(policy.weights, policy.tokenizer, episodes, Sampling(2, 4, 1.0), ("training", 0))
