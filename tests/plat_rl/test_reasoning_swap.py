"""What the policy does upon a reasoning that is not its own: exactly the ordinary evaluation, but for the reasoning."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from plat_rl.embedded.evaluate import Replace, evaluate, evaluate_replaced
from plat_rl.embedded.generate import generate
from plat_rl.embedded.rollout import Turn
from plat_rl.loop.randomness import FixedInstances
from plat_rl.loop.trajectory_table import instance_results

COUNT = 48


@pytest.fixture(params=["current", "full"])
def parts(request, compose, policy):
    config = compose("task=sokoban", f"train.context={request.param}", f"eval.instances={COUNT}")
    return config, policy, FixedInstances(config, "validation", COUNT)


def reasonings_of(policy, batch):
    """Reasoning tokens of each closed row, by (trajectory, turn)."""
    found = {}
    for row, length in enumerate(batch.reasoning_length):
        if length >= 0:
            place = (int(batch.trajectory_of_row[row]), int(batch.turn_of_row[row]))
            found[place] = tuple(batch.responses[row, :length].tolist())
    return found


def test_a_reasoning_replaced_by_itself_gives_the_ordinary_evaluation(parts):
    config, policy, instances = parts
    metrics, plain = evaluate(policy.weights, policy.tokenizer, config, instances)
    itself = Replace(policy.weights, policy.tokenizer, config.eval.temperature, lambda turn, own: own)
    again, batch = evaluate(policy.weights, policy.tokenizer, config, instances, itself)
    assert again == metrics and instance_results(batch) == instance_results(plain)
    assert np.array_equal(batch.responses, plain.responses) and batch.prompts == plain.prompts
    assert itself.replaced == (plain.reasoning_length >= 0).sum() > COUNT // 2


def test_everybody_gets_the_reasoning_of_somebody_else_in_the_first_turn(parts):
    config, policy, instances = parts
    _, plain = evaluate(policy.weights, policy.tokenizer, config, instances)
    metrics, batches = evaluate_replaced(policy.weights, policy.tokenizer, config, instances)
    before, after = reasonings_of(policy, plain), reasonings_of(policy, batches["swapped"])
    own = {number: reasoning for (number, turn), reasoning in before.items() if turn == 0}
    given = {number: reasoning for (number, turn), reasoning in after.items() if turn == 0}
    assert Counter(own.values()) == Counter(given.values()) and own.keys() == given.keys()
    moved = [number for number in own if own[number] != given[number]]
    assert len(moved) > 0.8 * len({*own.values()})
    # Whoever did not close its first think section is as before.
    for number in set(range(COUNT)) - own.keys():
        rows = [
            np.flatnonzero((b.trajectory_of_row == number) & (b.turn_of_row == 0))[0]
            for b in (plain, batches["swapped"])
        ]
        assert plain.response_length[rows[0]] == batches["swapped"].response_length[rows[1]]
    assert set(reasonings_of(policy, batches["blanked"]).values()) == {()}
    assert 0 < metrics["replaced_swapped"] <= 1 and 0 < metrics["replaced_blanked"] <= 1
    again, _ = evaluate_replaced(policy.weights, policy.tokenizer, config, instances)
    assert again == metrics


def test_what_follows_is_drawn_from_the_policy_given_the_other_reasoning(compose, policy):
    """Greedily, the rest is what the policy itself says after prompt, reasoning and closing tag."""
    config = compose("task=sokoban", "eval.temperature=0", "eval.instances=8")
    instances = FixedInstances(config, "validation", 8)
    _, batches = evaluate_replaced(policy.weights, policy.tokenizer, config, instances)
    batch, compared = batches["swapped"], 0
    for row in np.flatnonzero(batch.reasoning_length >= 0):
        start = batch.responses[row, : batch.reasoning_length[row] + 1].tolist()
        rest = batch.responses[row, len(start) : batch.response_length[row]].tolist()
        chances = np.zeros((1, config.task.response_tokens - len(start)), np.float32)
        if not chances.size:
            continue
        prompt = (*batch.prompts[batch.prompt_of_row[row]], *start)
        ids, lengths, *_ = generate(policy.weights, policy.tokenizer, [prompt], np.zeros(1, int), chances, 0.0)
        assert ids[0, : lengths[0]].tolist() == rest
        compared += 1
    assert compared >= 8


def test_a_reasoning_that_leaves_no_room_is_cut_and_nothing_follows(policy):
    close, eos = policy.tokenizer.encode("</think>"), policy.tokenizer.eos
    word = policy.tokenizer.encode("up")
    turn = Turn([(1, 2)], [[*word, *close, eos]], np.full((1, 4), 0.5, np.float32))
    replace = Replace(policy.weights, policy.tokenizer, 1.0, lambda number, own: [word * 9])
    assert replace(0, turn) == [word * 4]
    open_ended = Turn([(1, 2)], [word * 4], turn.chances)
    assert replace(0, open_ended) == [word * 4] and replace.replaced == 1
