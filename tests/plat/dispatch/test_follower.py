"""Following a spool gives what reading it whole gives, wherever one began and whatever is damaged."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plat.dispatch import follower
from plat.dispatch.follower import Attempt
from plat.store.run_directory.spool import Event, SpoolWriter, read_events

STEPS = st.lists(st.tuples(st.integers(0, 2), st.sampled_from([{"val/success": 0.5}, {"other": 1.0}, {}])), max_size=12)


@pytest.mark.parametrize("tail", [0, 100, 1 << 18])
@given(before=STEPS, after=STEPS)
def test_it_has_the_newest_step_and_the_newest_success(tmp_path_factory, tail, before, after):
    path = tmp_path_factory.mktemp("spool") / "events.jsonl"
    writer = SpoolWriter(path, "a")
    step = 0

    def append(lines):
        nonlocal step
        for position, (forward, metrics) in enumerate(lines):
            step += forward
            writer.append(step, {key: value + position for key, value in metrics.items()})

    append(before)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(follower, "TAIL", tail)
        attempt = Attempt(path, "val/success", 9.0)
    append(after)
    attempt.update()
    every = read_events(path)[0]
    successes = [event.metrics["val/success"] for event in every if "val/success" in event.metrics]
    assert attempt.step == max((event.step for event in every), default=None)
    assert attempt.success == (successes[-1] if successes else 9.0)
    writer.close()


def test_the_pace_is_that_of_the_last_steps_also_where_following_began_late(tmp_path, monkeypatch):
    path = tmp_path / "events.jsonl"
    writer = SpoolWriter(path, "a")
    for step in range(200):
        writer.replay(Event("metrics", step, 10.0 * step if step < 100 else 990.0 + step - 99))
    writer.close()
    for tail in (1 << 18, 3_000):
        monkeypatch.setattr(follower, "TAIL", tail)
        attempt = Attempt(path, "val/success")
        assert attempt.pace == pytest.approx(1.0) and attempt.seconds_left(300) == pytest.approx(101.0)
        assert attempt.seconds_left(None) is None and attempt.seconds_left(100) == 0


def test_damaged_lines_and_a_folder_in_its_place_give_no_step(tmp_path):
    path = tmp_path / "events.jsonl"
    path.write_bytes(b"nonsense\n")
    attempt = Attempt(path, "val/success")
    assert attempt.step is None and attempt.pace is None
    path.unlink()
    path.mkdir()
    attempt.update()
    assert attempt.step is None and attempt.success is None
