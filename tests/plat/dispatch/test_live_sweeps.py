"""Runs that wait in the queue of a sweep can be cancelled from outside; other processes see which sweeps go on."""

from __future__ import annotations

from sweep_processes import start, wait_for
from toy_runs import toy_run

from plat.store.coordination import live_sweeps
from plat.store.run_directory.state import run_state


def test_a_run_that_waits_for_a_slot_is_not_started(home):
    options = [{"seed": seed, "iterations": 60, "sleep": 0.05} for seed in range(2)]
    first, second = (home.run(toy_run(**option).id) for option in options)
    process = start(home, options, jobs=1)
    wait_for(lambda: first.attempts())
    assert live_sweeps.ask_not_to_start(home, [second.id, "0" * 16]) == [second.id]
    output = process.communicate(timeout=120)[0]
    assert run_state(first).state == "done" and not second.attempts(), output
    assert process.returncode == 3 and not home.sweeps.exists()


def test_a_sweep_that_was_killed_has_nothing_to_give(home, monkeypatch):
    with live_sweeps.announced(home) as sweep:
        sweep.give(["a", "b"])
        assert live_sweeps.ask_not_to_start(home, ["b", "c"]) == ["b"]
        assert (sweep.cancelled(), sweep.cancelled()) == (["b"], [])
        monkeypatch.setattr("plat.processes.identification.runs", lambda facts: False)
        assert live_sweeps.ask_not_to_start(home, ["a"]) == []
        with live_sweeps.announced(home):
            assert len(list(home.sweeps.iterdir())) == 1, "the killed one is forgotten"


def test_a_finished_sweep_leaves_nothing(home):
    with live_sweeps.announced(home):
        assert home.sweeps.exists()
    assert not home.sweeps.exists() and live_sweeps.ask_not_to_start(home, ["a"]) == []
