"""Following a spool gives what reading it whole gives, wherever one began and whatever is damaged."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plat.store.run_directory.spool import SpoolWriter, read_events
from plat.store.run_directory.spool_follower import SpoolFollower

STEPS = st.lists(st.tuples(st.integers(0, 2), st.sampled_from([{"val/success": 0.5}, {"other": 1.0}, {}])), max_size=12)


@pytest.mark.parametrize("from_end", [False, True])
@given(before=STEPS, after=STEPS)
def test_it_has_the_newest_step_and_the_newest_success(tmp_path_factory, from_end, before, after):
    path = tmp_path_factory.mktemp("spool") / "events.jsonl"
    writer = SpoolWriter(path)
    step = 0

    def append(lines):
        nonlocal step
        for position, (forward, metrics) in enumerate(lines):
            step += forward
            writer.append(step, {key: value + position for key, value in metrics.items()})

    append(before)
    follower = SpoolFollower(path, "val/success", from_end=from_end)
    append(after)
    events = follower.update()
    every = read_events(path)[0]
    assert events == (every[len(before) :] if from_end else every)
    assert follower.update() == []
    successes = [event.metrics["val/success"] for event in every if "val/success" in event.metrics]
    assert follower.step == max((event.step for event in every), default=None)
    assert follower.success == (successes[-1] if successes else None)
    writer.close()


@pytest.mark.parametrize("from_end", [False, True])
def test_damaged_lines_and_a_folder_in_its_place_give_no_step(tmp_path, from_end):
    path = tmp_path / "events.jsonl"
    path.write_bytes(b"nonsense\n")
    follower = SpoolFollower(path, "val/success", from_end=from_end)
    assert follower.update() == [] and follower.step is None
    path.unlink()
    path.mkdir()
    assert follower.update() == [] and follower.step is None and follower.success is None
