"""One run in this process: outcomes, what is written in which order, and going on after any kind of end."""

import json
import os
import signal
import time

import plat_toy
import pytest
from runner_runs import make, outcome_of
from toy_runs import comparable, no_step_twice

from plat.errors import HomeError, RunError
from plat.runner.execution import execute
from plat.store.disk.durable import to_checked_json
from plat.store.home import Home
from plat.store.run_directory import lease
from plat.store.run_directory.attempts import record_failure, request_cancel, settle
from plat.store.run_directory.state import run_state
from plat.trainer.api import State


def test_a_run_from_begin_to_end(home):
    paths = make(home)
    assert execute(home, paths.id) == "finished"
    result = json.loads(paths.result.read_text())
    assert {"id", "name", "outcome", "attempt", "step", "wall", "summary", "attempts", "time"} <= result.keys()
    assert (result["step"], result["attempt"], result["attempts"]) == (6, 1, [1])
    assert result["summary"]["parameters"] == 3 and 0 <= result["success"] <= 1
    assert outcome_of(paths)["outcome"] == "finished" and outcome_of(paths)["peak_mb"] > 1
    assert "toy starts at step 0" in paths.attempt(1).log.read_text()
    assert lease.state(paths) == "free" and run_state(paths).state == "done" and no_step_twice(paths)
    line = json.loads(home.history.read_text())
    assert line["iterations"] == 6 and line["trainer"] == "plat_toy:Toy" and line["run"] == paths.id
    facts = json.loads(paths.attempt(1).meta.read_text())
    assert facts["hardware"] and facts["pid"] == os.getpid() and facts["threads"] == 1


def test_facts_of_the_start_are_in_the_summary(home, monkeypatch):
    paths, train = make(home), plat_toy.Toy().train

    def with_facts(config, io):
        io.facts({"base_sha256": "aa", "parameters": 1})
        return train(config, io)

    monkeypatch.setattr(plat_toy.Toy, "train", staticmethod(with_facts))
    assert execute(home, paths.id) == "finished"
    summary = json.loads(paths.result.read_text())["summary"]
    assert summary["base_sha256"] == "aa" and summary["parameters"] == 3  # the trainer's own summary wins


def test_done_is_done(home):
    paths = make(home)
    execute(home, paths.id)
    before = {path: path.stat().st_mtime_ns for path in paths.root.rglob("*")}
    assert execute(home, paths.id) == "finished"
    assert {path: path.stat().st_mtime_ns for path in paths.root.rglob("*")} == before


def test_an_early_stop_is_a_result(home):
    paths = make(home, mischief="collapse")
    assert execute(home, paths.id) == "stopped:reward_variance_collapse"
    assert run_state(paths).state == "done"


def test_after_a_failure_it_goes_on_from_the_checkpoint_to_the_same_history(home, tmp_path):
    paths = make(home, mischief="error_once")
    assert execute(home, paths.id) == "failed:error"
    assert execute(home, paths.id) == "finished"
    assert "toy starts at step 2" in paths.attempt(2).log.read_text()
    assert json.loads(paths.result.read_text())["attempts"] == [1, 2]
    quiet = Home(tmp_path / "quiet").create()
    (quiet.cache / "mischief-error_once-0").touch()
    undisturbed = make(quiet, mischief="error_once")
    execute(quiet, undisturbed.id)
    assert len(undisturbed.attempts()) == 1 and comparable(paths) == comparable(undisturbed)
    line = json.loads(home.history.read_text())
    assert line["iterations"] == 4  # only what this attempt did in its time


def test_a_signal_lets_it_save_and_the_next_goes_on(home):
    paths = make(home, iterations=200, sleep=0.01)
    pid = os.fork()
    if pid == 0:
        os._exit({"interrupted": 0}.get(execute(home, paths.id), 1))
    while not (paths.attempt(1).checkpoints / "step-000004").exists():
        time.sleep(0.01)
    os.kill(pid, signal.SIGTERM)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    recorded = outcome_of(paths)
    assert (recorded["outcome"], run_state(paths).state) == ("interrupted", "interrupted")
    assert signal.getsignal(signal.SIGTERM) == signal.SIG_DFL
    saved = recorded["step"]
    assert saved < 200 and execute(home, paths.id) == "finished"
    assert f"toy starts at step {saved}" in paths.attempt(2).log.read_text() and no_step_twice(paths)


def test_a_run_whose_nodes_went_when_it_was_asked_to_stop_is_interrupted_not_failed(home, monkeypatch):
    """A scheduler that ends a job asks all of its processes at once, on all nodes."""

    def loses_its_node(config, io):
        if io.restore() is None:
            io.save(0, State({}))
            os.kill(os.getpid(), signal.SIGTERM)
        raise RunError("a node was lost", failure_class="node")

    monkeypatch.setattr(plat_toy.Toy, "train", staticmethod(loses_its_node))
    paths = make(home)
    assert execute(home, paths.id) == "interrupted"
    assert "before it could save" in outcome_of(paths)["reason"]
    assert execute(home, paths.id) == "failed:node", "nobody asked it to stop this time"


def test_cancelled_is_not_interrupted(home):
    paths = make(home, iterations=500, sleep=0.01)
    pid = os.fork()
    if pid == 0:
        os._exit({"cancelled": 0}.get(execute(home, paths.id), 1))
    while run_state(paths).step is None:
        time.sleep(0.01)
    request_cancel(paths)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    assert run_state(paths).outcome == "cancelled"


def test_a_killed_attempt_is_named_by_the_next(home):
    paths = make(home, mischief="sigkill_once")
    pid = os.fork()
    if pid == 0:
        execute(home, paths.id)
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == -9
    assert run_state(paths).state == "interrupted" and lease.state(paths) == "orphan"
    assert execute(home, paths.id) == "finished"
    assert outcome_of(paths, 1)["outcome"] == "failed:node" and "vanished" in outcome_of(paths, 1)["reason"]


def test_the_parent_of_a_dead_process_records_how_it_died(home):
    paths = make(home, mischief="sigkill_once")
    pid = os.fork()
    if pid == 0:
        execute(home, paths.id)
    os.waitpid(pid, 0)
    assert settle(paths, "failed:oom", "killed by the kernel") == "failed:oom"
    assert run_state(paths).outcome == "failed:oom" and lease.state(paths) == "free"
    assert settle(paths, "failed:node", "again") == "failed:node"  # there is no lease any more: nothing to record
    assert run_state(paths).outcome == "failed:oom"


def test_settle_leaves_a_live_run_alone(home):
    paths = make(home)
    held = lease.take(paths)
    assert settle(paths, "failed:node", "x") is None
    held.release()


def test_a_run_that_could_not_start_is_on_record(home):
    paths = make(home)
    record_failure(paths, "failed:error", "its base model could not be built")
    state = run_state(paths)
    assert (state.state, state.outcome, state.reason) == ("failed", "failed:error", "its base model could not be built")


def test_somebody_else_has_it(home):
    paths = make(home)
    held = lease.take(paths)
    with pytest.raises(lease.LeaseHeld) as error:
        execute(home, paths.id)
    assert error.value.state == "live" and paths.attempts() == []
    text = json.loads(paths.lease.read_text())
    held.release()
    paths.lease.write_text(json.dumps(text | {"host": "elsewhere"}))
    with pytest.raises(lease.LeaseHeld) as error:
        execute(home, paths.id)
    assert error.value.state == "unknown"
    assert execute(home, paths.id, steal=True) == "finished"


def test_a_stale_attempt_cannot_replace_a_result(home, monkeypatch):
    """The thief finishes while the robbed one still trains: the first result stays."""
    paths, train = make(home), plat_toy.Toy().train

    def slow(config, io):
        paths.result.write_bytes(to_checked_json({"id": paths.id, "outcome": "finished", "attempt": 7, "time": 1.0}))
        return train(config, io)

    monkeypatch.setattr(plat_toy.Toy, "train", staticmethod(slow))
    assert execute(home, paths.id) == "finished"
    assert json.loads(paths.result.read_text())["attempt"] == 7 and not home.history.exists()


def test_preparation_runs_first_and_its_failure_is_the_runs(home):
    paths = make(home, recipe="base")
    assert execute(home, paths.id) == "finished"
    assert (home.cache / "prepared.txt").read_text() == "base\n"
    broken = make(home, recipe="broken")
    assert execute(home, broken.id) == "failed:error"
    assert "the recipe is broken" in outcome_of(broken)["error"]


def test_a_damaged_directory_is_said_clearly(home):
    paths = make(home)
    paths.config.write_text("a: [")
    with pytest.raises(HomeError):
        execute(home, paths.id)
    assert lease.state(paths) == "free"
