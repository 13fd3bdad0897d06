"""Work that runs share is done once, and keeps no run waiting that does not need it."""

from collections import Counter

from sweep_processes import Recorder, finish, start, wait_for
from toy_runs import toy_run

from plat.dispatch.driver import sweep
from plat.store.coordination.preparations import preparations
from plat.store.run_directory.state import run_state


def events(recorder):
    """(title, state) of what happened, in order; the first of them only for what happened more than once."""
    return list(dict.fromkeys(line[:2] for line in recorder.lines if len(line) == 3))


def opening_the_gate_after(home, runs):
    """A callback for `sweep` that ends the preparation "gated" when these runs have ended."""
    left = {run.id for run in runs}

    def on_finished(run):
        left.discard(run.id)
        if not left:
            (home.cache / "gate").touch()

    return on_finished


def test_runs_that_are_ready_do_not_wait_for_preparations(home):
    ready = [toy_run(seed=seed) for seed in range(3)]
    need = [toy_run(seed=seed, recipe="gated") for seed in range(2)]
    recorder = Recorder()
    report = sweep(home, [*need, *ready], 2, recorder, on_finished=opening_the_gate_after(home, ready))
    assert report.counts() == {"done": 5}
    order = events(recorder)
    assert {order[0], order[1]} == {("recipe gated", "running"), (ready[0].name, "running")}


def test_what_nobody_can_do_without_is_prepared_on_all_slots(home):
    runs = [toy_run(seed=seed, recipe=recipe) for seed, recipe in enumerate("baa")]
    recorder = Recorder()
    assert sweep(home, runs, 2, recorder).counts() == {"done": 3}
    assert events(recorder)[:2] == [("recipe a", "running"), ("recipe b", "running")], "the most wanted first"


def test_what_another_sweep_prepares_takes_no_slot_here(home):
    runs = [toy_run(seed=0, recipe="gated"), toy_run(seed=1), toy_run(seed=2)]
    other = start(home, [{"seed": 5, "recipe": "gated"}], jobs=1)
    wait_for(lambda: [preparation.title for preparation in preparations(home)] == ["recipe gated"], other)
    wait_for(lambda: preparations(home)[0].done is not None, other)
    recorder = Recorder()
    report = sweep(home, runs, 2, recorder, on_finished=opening_the_gate_after(home, runs[1:]))
    assert report.counts() == {"done": 3} and ("recipe gated", "waiting") in events(recorder)
    assert finish(other)[2]["counts"] == {"done": 1}
    assert (home.cache / "prepared.txt").read_text().split() == ["gated"]
    assert preparations(home) == []


def test_preparations_are_done_once_and_a_failed_one_fails_its_runs(home):
    runs = [toy_run(seed=seed, recipe=recipe) for seed, recipe in enumerate(["", "a", "b", "a", "broken", "a"])]
    report = sweep(home, runs, 2)
    assert Counter((home.cache / "prepared.txt").read_text().split()) == {"a": 1, "b": 1}
    broken = report.ends[runs[4].id]
    assert (broken.state, broken.outcome) == ("failed", "failed:error")
    assert broken.reason == "recipe broken failed: the recipe is broken; fix: choose another"
    assert run_state(home.run(runs[4].id)).reason == broken.reason
    assert report.counts() == {"done": 5, "failed": 1}
    assert "preparing a" in next(home.logs.glob("prepare-*-a.txt")).read_text()
