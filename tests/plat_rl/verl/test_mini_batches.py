"""Every kept trajectory is learnt from exactly once, whatever their number."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from plat_rl.verl.update.batches import mini_batches


@given(st.lists(st.integers(1, 4), min_size=1, max_size=60), st.integers(1, 8), st.integers(1, 4), st.integers(0, 5))
def test_each_trajectory_once_and_each_mini_batch_fits_all_processes(
    sequences: list[int], updates: int, processes: int, seed: int
) -> None:
    trajectories = len(sequences)
    trajectory_of_sequence = np.repeat(np.arange(trajectories), sequences)
    batches, padding = mini_batches(trajectory_of_sequence, updates, processes, np.random.default_rng(seed))
    rows = np.concatenate([batch.sequences for batch in batches])
    assert sorted(rows.tolist()) == list(range(sum(sequences) + padding))
    assert all(len(batch.sequences) % processes == 0 for batch in batches)
    real = [batch.trajectories for batch in batches]
    assert min(real) >= 1 and max(real) - min(real) <= 1 and len(batches) == min(updates, trajectories)
    for batch in batches:  # whole trajectories
        own = trajectory_of_sequence[batch.sequences[batch.sequences < sum(sequences)]]
        assert len(own) == sum(sequences[number] for number in set(own.tolist()))
        assert len(set(own.tolist())) == batch.trajectories
    assert padding == 0 or processes > 1


def test_they_are_those_of_the_embedded_trainer() -> None:
    ours, _ = mini_batches(np.arange(12), 4, 1, np.random.default_rng(7))
    theirs = np.array_split(np.random.default_rng(7).permutation(12), 4)
    assert [batch.sequences.tolist() for batch in ours] == [np.sort(part).tolist() for part in theirs]
