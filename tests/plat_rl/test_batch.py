"""Laws of the arrays of one iteration: selecting, joining, packing, and grouping by length."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from plat_rl.embedded.batch import (
    Batch,
    concatenate,
    length_groups,
    packing,
    pad_prompts,
    token_rewards,
)

seeds = st.integers(0, 2**32 - 1)
quick = settings(max_examples=40, deadline=None)


def make(seed: int, trajectories: int = 5) -> Batch:
    """Random trajectories of one to four turns with responses of one to six tokens, some under equal prompts."""
    rng = np.random.default_rng(seed)
    turns = rng.integers(1, 5, trajectories)
    rows = int(turns.sum())
    prompts = list(dict.fromkeys(tuple(rng.integers(0, 3, rng.integers(1, 4)).tolist()) for _ in range(rows)))
    prompt_of_row = rng.integers(0, len(prompts), rows)
    used, prompt_of_row = np.unique(prompt_of_row, return_inverse=True)
    length = rng.integers(1, 7, rows)
    mask = np.arange(length.max()) < length[:, None]
    return Batch(
        prompts=[prompts[number] for number in used],
        prompt_of_row=prompt_of_row,
        trajectory_of_row=np.repeat(np.arange(trajectories), turns),
        turn_of_row=np.concatenate([np.arange(count) for count in turns]),
        responses=rng.integers(1, 50, mask.shape) * mask,
        response_length=length,
        reasoning_length=rng.integers(-1, length),
        log_probs=(-rng.random(mask.shape) * mask).astype(np.float32),
        entropies=(rng.random(mask.shape) * mask).astype(np.float32),
        rewards=rng.normal(size=rows),
        group=np.sort(rng.integers(0, 3, trajectories)),
        success=rng.random(trajectories) < 0.5,
        format_valid=rng.random(rows) < 0.5,
        reasoning_level=rng.integers(-1, 4, rows),
        actions=rng.integers(0, 3, rows),
        moves=rng.integers(0, 3, rows),
        constant_reward=rng.random(rows),
        tricks=rng.integers(-1, 256, rows),
    )


def content(batch: Batch) -> list[tuple]:
    """What a batch says, trajectory by trajectory, however it is stored."""
    trajectories = []
    for number in range(batch.trajectories):
        rows = np.flatnonzero(batch.trajectory_of_row == number)
        trajectories.append(
            (
                int(batch.group[number]),
                bool(batch.success[number]),
                [
                    (
                        batch.prompts[batch.prompt_of_row[row]],
                        int(batch.turn_of_row[row]),
                        batch.responses[row, : batch.response_length[row]].tolist(),
                        int(batch.reasoning_length[row]),
                        batch.log_probs[row, : batch.response_length[row]].tolist(),
                        batch.entropies[row, : batch.response_length[row]].tolist(),
                        float(batch.rewards[row]),
                        bool(batch.format_valid[row]),
                        int(batch.reasoning_level[row]),
                        int(batch.actions[row]),
                        int(batch.moves[row]),
                    )
                    for row in rows
                ],
            )
        )
    return trajectories


def check_form(batch: Batch) -> None:
    """The promises of the module's docstring."""
    order = np.lexsort((batch.turn_of_row, batch.trajectory_of_row))
    assert np.array_equal(order, np.arange(len(order)))
    assert set(batch.prompt_of_row) == set(range(len(batch.prompts)))
    assert len(set(batch.prompts)) == len(batch.prompts)
    assert batch.responses.shape == batch.log_probs.shape == batch.entropies.shape == batch.token_mask.shape
    assert not batch.responses[~batch.token_mask].any()


@given(seeds, st.data())
@quick
def test_selecting_gives_those_trajectories_in_that_order(seed, data):
    batch = make(seed)
    chosen = np.array(data.draw(st.lists(st.integers(0, 4), min_size=1, unique=True)))
    part = batch.select(chosen)
    check_form(part)
    assert content(part) == [content(batch)[number] for number in chosen]
    assert part.responses.shape[1] == part.response_length.max()


@given(seeds)
@quick
def test_a_permutation_and_its_inverse_cancel(seed):
    batch = make(seed)
    order = np.random.default_rng(seed).permutation(batch.trajectories)
    assert content(batch.select(order).select(np.argsort(order))) == content(batch)


@given(seeds, seeds)
@quick
def test_joining_keeps_every_trajectory_and_merges_prompts(mine, other):
    first, second = make(mine), make(other, 3)
    joined = concatenate([first, second])
    check_form(joined)
    assert content(joined) == content(first) + content(second)
    assert content(joined.select(np.arange(5, 8))) == content(second)
    assert concatenate([first]) is first


@given(seeds)
@quick
def test_packing_and_unpacking_cancel_and_keep_the_order_of_tokens(seed):
    batch = make(seed)
    packed = packing(batch, "cpu")
    tokens = torch.from_numpy(batch.responses[batch.token_mask])
    lines = packed.pack(tokens)
    assert torch.equal(packed.flat(lines), tokens)
    assert torch.equal(torch.from_numpy(batch.responses)[packed.row, packed.column], tokens)
    wanted = [[token for turn in turns for token in turn[2]] for _, _, turns in content(batch)]
    assert [line[mask > 0].tolist() for line, mask in zip(lines, packed.mask, strict=True)] == wanted
    assert bool((packed.mask.sum(1) == packed.mask.cumsum(1)[:, -1]).all())  # tokens first, then padding
    assert packed.mask.shape[1] == max(map(len, wanted))


@given(seeds)
@quick
def test_token_rewards_lie_at_the_ends_of_turns_and_sum_to_the_returns(seed):
    batch = make(seed)
    packed = packing(batch, "cpu")
    rewards = token_rewards(batch, packed)
    assert rewards.dtype == torch.float64
    np.testing.assert_allclose(rewards.sum(1).numpy(), batch.returns, rtol=1e-12)
    assert not bool((rewards * (1 - packed.mask)).any())
    flat = packed.flat(rewards).numpy()
    assert np.array_equal(flat[np.cumsum(batch.response_length) - 1], batch.rewards)
    assert np.count_nonzero(flat) == np.count_nonzero(batch.rewards)


@given(st.lists(st.integers(1, 40), min_size=1, max_size=60), st.sampled_from([1, 8, 64, 10**9]))
@quick
def test_length_groups_cover_every_row_once_and_save_what_they_promise(lengths, worth):
    lengths = np.array(lengths)
    groups = length_groups(lengths, worth)
    assert sorted(np.concatenate(groups).tolist()) == list(range(len(lengths)))
    assert all(np.array_equal(group, np.sort(group)) for group in groups)
    padded = sum(len(group) * lengths[group].max() for group in groups)
    assert padded <= len(lengths) * lengths.max() - worth * (len(groups) - 1)
    if worth == 1:
        assert padded == lengths.sum()
    if worth == 10**9:
        assert len(groups) == 1


def test_prompts_are_padded_on_the_right_less_their_last_token():
    ids, lengths, last = pad_prompts([(1, 2, 3), (4,), (5, 6)], 0, "cpu")
    assert ids.tolist() == [[1, 2], [0, 0], [5, 0]]
    assert lengths is not None and lengths.tolist() == [2, 0, 1]
    assert last.tolist() == [3, 4, 6]
    assert pad_prompts([(1, 2), (3, 4)], 0, "cpu")[1] is None


@pytest.mark.parametrize("count", [1, 4])
def test_sums_over_turns(count):
    batch = make(3, count)
    ones = batch.per_trajectory(np.ones(len(batch.turn_of_row)))
    assert ones.tolist() == [len(trajectory[2]) for trajectory in content(batch)]
