"""Why runs have no result, and what they have cost."""

from __future__ import annotations

import json
import shutil

import pytest

from plat.app.entries import goes_on
from plat.app.standing import MOST_REASONS, Work, cost_line, meaning, reasons, why_missing, work_done
from plat.runner.failures import FIX
from plat.store.home import Home
from plat.store.run_directory.state import STATES, RunState, run_state


@pytest.mark.parametrize("state", [state for state in STATES if state not in ("done", "running")])
def test_every_state_without_a_result_has_a_reason_and_a_way_on(state):
    reason = why_missing(RunState(state, "failed:oom" if state == "failed" else None, reason="no room"))
    assert reason and ("`plat" in reason or state == "queued")
    assert meaning(state)


def test_a_failure_that_would_repeat_names_retry():
    assert "`plat retry`" in why_missing(RunState("failed", "failed:nan", reason="a NaN"))
    assert "the next `plat sweep`" in why_missing(RunState("failed", "failed:node", reason="vanished"))
    assert "cancelled" in why_missing(RunState("interrupted", "cancelled", reason="cancelled"))


def test_a_killed_run_without_a_checkpoint_starts_anew(executed, home):
    paths = executed()
    paths.result.unlink()
    for held, words in ((True, "resumes from its newest checkpoint"), (False, "starts it anew: it has no checkpoint")):
        for attempt in paths.attempts():
            (attempt.checkpoints / "step-1").mkdir(parents=True, exist_ok=True) if held else shutil.rmtree(
                attempt.checkpoints
            )
        assert words in why_missing(run_state(paths))


@pytest.mark.parametrize("outcome", [None, "interrupted", "cancelled", "failed:node"])
def test_what_no_file_asks_for_goes_on_with_plat_run(outcome):
    state = "missing" if outcome is None else "failed" if outcome == "failed:node" else "interrupted"
    lines = reasons({"a": RunState(state, outcome), "b": RunState(state, outcome)}, {"a": "run"})
    assert sum("`plat run`" in line for line in lines) == 1 and sum("`plat sweep`" in line for line in lines) == 1
    assert "plat sweep" not in meaning(state, "run")


@pytest.mark.parametrize(
    ("outcome", "verb"),
    [(None, "tune FILE"), ("interrupted", "tune FILE"), ("cancelled", "tune FILE"), ("failed:node", "retry")],
)
def test_what_only_a_search_asks_for_goes_on_with_plat_tune(outcome, verb):
    state = "missing" if outcome is None else "failed" if outcome == "failed:node" else "interrupted"
    (line,) = reasons({"a": RunState(state, outcome)}, {"a": "tune"})
    assert f"`plat {verb}`" in line and "plat sweep" not in line
    assert "a search pruned the run" in why_missing(RunState("interrupted", "stopped:pruned"), "tune")


def test_a_run_goes_on_with_the_verb_of_the_file_that_asks_for_it():
    assert goes_on(["table"], []) == goes_on(["table", "search"], ["search"]) == "sweep"
    assert goes_on(["search"], ["search"]) == "tune" and goes_on([], []) == "run"


def test_reasons_are_counted_and_few():
    states = [
        RunState("failed", "failed:error", reason=f"reason {chr(65 + number // 3)}{number}") for number in range(30)
    ]
    states += [RunState("done"), *[RunState("missing")] * 9]
    lines = reasons({str(number): state for number, state in enumerate(states)})
    assert lines[0].startswith("9 missing: never started") and len(lines) == MOST_REASONS + 1
    assert lines[1].startswith("3 failed: failed:error: reason") and lines[-1].startswith("15 for other reasons")


def test_long_reasons_keep_to_a_line():
    (line,) = reasons({"id": RunState("failed", "failed:error", reason="word\n" * 200)})
    assert "\n" not in line and len(line) < 250 and line.endswith("`plat retry` tries again")


def test_a_long_reason_leaves_room_for_how_to_mend_it():
    reason = why_missing(RunState("failed", "failed:error", reason="word " * 60 + FIX + "fix it"))
    assert reason.endswith("...; fix: fix it; `plat retry` tries again")


def test_what_was_spent_is_the_time_of_all_attempts(executed, home):
    runs = [executed(seed=0, mischief="error_once", twice=True), executed(seed=1, mischief="error")]
    place = Home(home)
    walls = [
        json.loads(attempt.outcome.read_text())["wall"] for run in runs for attempt in place.run(run.id).attempts()
    ]
    assert len(walls) == 3
    spent = work_done(place, {run.id: run_state(run) for run in runs})
    assert spent.seconds == pytest.approx(sum(walls), abs=0.01) and spent.gpu_seconds == 0


def test_the_time_of_a_run_counts_once_for_each_of_its_gpus(executed, home):
    run = executed(seed=0)
    line = json.loads(Home(home).history.read_text())
    assert line["gpus"] == 0
    Home(home).history.write_text(json.dumps({**line, "spent": 3600.0, "gpus": 4}) + "\n")
    spent = work_done(Home(home), {run.id: run_state(run)})
    assert spent == Work(3600.0, 4 * 3600.0) and cost_line(spent, None, True) == "60.0 min (4.0 GPU-hours) of work done"


def test_the_line_of_costs():
    minute = Work(60.0)
    assert cost_line(minute, Work(30.0), False) == "60 s of work done, about 30 s to go"
    assert "not known" in cost_line(minute, None, False) and cost_line(minute, None, True) == "60 s of work done"
