"""Mutual information turn by turn, against a slow loop over reasonings and their candidates."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from plat_rl.loop.proxy_scoring import mutual_information
from plat_rl.rl.config import MIConfig

FEW = MIConfig(samples=1000, turns=3, released_marginal=False)


def scored(batch, config=FEW, rng=0):
    """The metrics under a scorer that is a function of the reasoning's row and the prompt; and what it was asked."""
    prompts, asked = [batch.prompts[number] for number in batch.prompt_of_row], []

    def score(rows, distinct):
        asked.append((rows, distinct))
        return torch.tensor([[likelihood(row, prompt) for prompt in distinct] for row in rows], dtype=torch.float64)

    return mutual_information(batch, prompts, config, {}, np.random.default_rng(rng), score), prompts, asked


def likelihood(row, prompt):
    return -3.0 - math.sin(float(row) * 12.9898 + sum(i * token for i, token in enumerate(prompt, 1))) * 2


@pytest.mark.parametrize("task", ["sokoban", "frozenlake"])
def test_each_turn_against_a_slow_loop(compose, play, task):
    batch = play(compose(f"task={task}"), groups=4, size=6)
    metrics, prompts, _ = scored(batch)
    for turn in range(3):
        rows = [row for row in range(len(prompts)) if batch.turn_of_row[row] == turn]
        group_of = {row: int(batch.group[batch.trajectory_of_row[row]]) for row in rows}
        first = {}
        for row in rows:  # rows are in the order of trajectories
            first.setdefault(group_of[row], row)
        differences, hits, chances = [], [], []
        for row in rows:
            if batch.reasoning_length[row] <= 0:
                continue
            others = [prompts[other] for group, other in first.items() if group != group_of[row]]
            candidates = [prompts[row], *others]
            values = [likelihood(row, prompt) for prompt in candidates]
            marginal = math.log(sum(map(math.exp, values)) / len(values))
            differences.append((values[0] - marginal) / batch.reasoning_length[row])
            distinct = {prompt: likelihood(row, prompt) for prompt in candidates}
            hits.append(distinct[prompts[row]] == max(distinct.values()))
            chances.append(1 / len(distinct))
        scope = f"mi/turn_{turn + 1}"
        assert metrics[f"{scope}/mi_est"] == pytest.approx(np.mean(differences), rel=1e-9)
        assert metrics[f"{scope}/retrieval_acc"] == pytest.approx(np.mean(hits), rel=1e-9)
        assert metrics[f"{scope}/retrieval_chance"] == pytest.approx(np.mean(chances), rel=1e-9)


def test_the_first_turn_is_the_first_turn(compose, play):
    metrics, *_ = scored(play(compose("task=sokoban"), groups=4, size=6))
    names = {name.removeprefix("mi/first_turn/") for name in metrics if name.startswith("mi/first_turn/")}
    assert "retrieval_acc" in names
    for name in names:
        assert metrics[f"mi/turn_1/{name}"] == pytest.approx(metrics[f"mi/first_turn/{name}"], rel=1e-12), name


def test_what_is_drawn_for_the_other_scopes_stays(compose, play):
    batch = play(compose("task=sokoban"), groups=4, size=6)
    plain, _, before = scored(batch, MIConfig(samples=5), 3)
    more, _, after = scored(batch, MIConfig(samples=5, turns=2), 3)
    assert {name: more[name] for name in plain} == plain and len(after) == len(before) + 2


def test_a_turn_that_one_group_reaches_has_nothing_to_compare(compose, play):
    batch = play(compose("task=sokoban"), groups=2, size=3)
    alone = batch.select(np.flatnonzero(batch.group == batch.group[0]))
    assert not [name for name in scored(alone)[0] if name.startswith("mi/turn_")]
    batch.reasoning_length[batch.turn_of_row == 1] = -1
    assert {name.split("/")[1] for name in scored(batch)[0] if "turn_" in name.split("/")[1]} >= {"turn_1"}
    assert not [name for name in scored(batch)[0] if name.startswith("mi/turn_2/")]


def test_valid_reasonings_are_counted_and_nothing_else_changes(compose, play):
    """The counts against loops over turns; without some reasonings the others are scored as before."""
    batch = play(compose("task=sokoban"), groups=4, size=6)
    batch.reasoning_length[::3] = -1  # never closed
    batch.reasoning_length[1::7] = 0  # empty
    metrics, _, asked = scored(batch)
    has = [length > 0 for length in batch.reasoning_length]
    turns = {f"turn_{turn + 1}": [r for r, at in enumerate(batch.turn_of_row) if at == turn] for turn in range(3)}
    for scope, rows in {"first_turn": turns["turn_1"], **turns}.items():
        valid = [row for row in rows if has[row]]
        assert metrics[f"mi/{scope}/valid_reasonings"] == len(valid)
        assert metrics[f"mi/{scope}/valid_share"] == pytest.approx(len(valid) / len(rows))
    assert metrics["mi/trajectory/valid_share"] == pytest.approx(np.mean(has))
    drawn = {int(row) for row in asked[1][0]}
    assert metrics["mi/trajectory/valid_reasonings"] == len(drawn) < sum(has)  # drawn with replacement
    assert all(has[row] for rows, _ in asked for row in rows)


def test_a_sample_is_counted_and_not_all_that_are_valid(compose, play):
    batch = play(compose("task=sokoban"), groups=4, size=6)
    metrics, *_ = scored(batch, MIConfig(samples=5, trajectory=False))
    assert metrics["mi/first_turn/valid_reasonings"] == 5
    batch.reasoning_length[:] = 0
    assert scored(batch)[0] == {}
