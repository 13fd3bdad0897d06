"""A sweep on this machine: what is done, how failures stay alone, and what is said."""

import dataclasses
import json
import time
from collections import Counter

import plat_toy
import pytest
from sweep_processes import Recorder
from toy_runs import no_step_twice, toy_run

from plat.dispatch.driver import sweep
from plat.dispatch.local import devices
from plat.dispatch.local.local_dispatcher import LocalDispatcher
from plat.dispatch.setting import Setting
from plat.errors import RunError, SpecError
from plat.spec.expansion.experiment import Experiment
from plat.store.run_directory import lease
from plat.store.run_directory.creation import create
from plat.store.run_directory.run_files import read_outcome
from plat.store.run_directory.state import run_state


def test_what_is_missing_is_done_and_nothing_twice(home):
    runs = [toy_run(seed=seed) for seed in range(5)]
    recorder, finished = Recorder(), []
    report = sweep(home, runs, 2, recorder, on_finished=lambda run: finished.append(run.id))
    assert report.counts() == {"done": 5} and report.exit_code == 0 and not report.interrupted
    assert sorted(finished) == sorted(run.id for run in runs) and recorder.most_running <= 2
    assert all(no_step_twice(home.run(run.id)) for run in runs)
    before = {path: path.stat().st_mtime_ns for path in home.root.rglob("*")}
    again = sweep(home, runs, 2, recorder, on_finished=lambda run: finished.append(run.id))
    assert again.counts() == {"done": 5} and not any(end.fresh for end in again.ends.values()) and len(finished) == 5
    assert {path: path.stat().st_mtime_ns for path in home.root.rglob("*")} == before


def test_a_config_that_cannot_be_read_is_written_again(home):
    run = toy_run(seed=1)
    paths = create(home, run, "")
    good = paths.config.read_text()
    paths.config.write_text("{")
    assert sweep(home, [run], 1).counts() == {"done": 1} and paths.config.read_text() == good


def test_failures_stay_alone_and_are_classified(home):
    kinds = ["segfault", "exit", "nan", "memory", "error", "disk", "sigkill", "sigkill_once", "collapse", "none"]
    runs = {kind: toy_run(mischief=kind) for kind in kinds}
    report = sweep(home, list(runs.values()), 3)
    outcomes = {kind: report.ends[run.id].outcome for kind, run in runs.items()}
    assert outcomes == {
        "segfault": "failed:error", "exit": "failed:error", "nan": "failed:nan", "memory": "failed:oom",
        "error": "failed:error", "disk": "failed:disk", "sigkill": "failed:node", "sigkill_once": "finished",
        "collapse": "stopped:reward_variance_collapse", "none": "finished",
    }  # fmt: skip
    attempts = {kind: len(home.run(run.id).attempts()) for kind, run in runs.items()}
    assert attempts["sigkill"] == 3 and attempts["sigkill_once"] == 2  # a node's fault is tried again, twice
    assert Counter(attempts.values())[1] == 8
    assert report.exit_code == 3 and report.counts() == {"failed": 7, "done": 3}
    assert "SIGSEGV" in report.ends[runs["segfault"].id].reason
    assert "Segmentation fault" in home.run(runs["segfault"].id).attempt(1).log.read_text()
    for kind, run in runs.items():
        state = run_state(home.run(run.id))
        assert state.outcome == outcomes[kind] and lease.state(home.run(run.id)) == "free"
    # Later: what would fail again is left alone; the rest, and with retry everything, is tried.
    report = sweep(home, list(runs.values()), 3)
    fresh = {kind for kind, run in runs.items() if report.ends[run.id].fresh}
    assert fresh == {"memory", "disk", "sigkill"} and report.counts() == {"failed": 7, "done": 3}
    report = sweep(home, [runs["nan"]], 1, retry=True)
    assert len(home.run(runs["nan"].id).attempts()) == 2


def test_a_stalled_run_is_killed_says_where_and_is_tried_once_more(home):
    runs = [toy_run(mischief="hang"), toy_run(mischief="hang_once"), toy_run(iterations=40, sleep=0.1)]
    report = sweep(home, runs, 3, stall_after=3.0)
    assert [report.ends[run.id].outcome for run in runs] == ["failed:stalled", "finished", "finished"]
    assert len(home.run(runs[0].id).attempts()) == 2
    assert "misbehave" in home.run(runs[0].id).attempt(1).log.read_text()  # the traceback of where it hung
    assert no_step_twice(home.run(runs[1].id))


def test_the_trainer_says_after_how_long_its_runs_are_stalled(home, monkeypatch):
    monkeypatch.setattr(plat_toy.Toy, "stall_after", 4.0)
    run = toy_run(mischief="hang_once")
    assert sweep(home, [run], 1).counts() == {"done": 1}
    assert [read_outcome(attempt)["outcome"] for attempt in home.run(run.id).attempts()] == [
        "failed:stalled",
        "finished",
    ]


def test_a_callback_that_fails_stops_nothing(home):
    def fail(run):
        raise ValueError("the store is locked")

    report = sweep(home, [toy_run(seed=0), toy_run(seed=1)], 2, on_finished=fail)
    assert report.counts() == {"done": 2} and len(report.trouble) == 2 and "store is locked" in report.trouble[0]


def test_what_fails_before_the_runs_ends_the_sweep_before_any_run(home):
    def fail():
        raise RunError("the store is down")

    with pytest.raises(RunError, match="the store is down"):
        sweep(home, [toy_run(seed=0)], 1, before_runs=fail)
    assert list(home.runs.iterdir()) == []


def test_files_that_ask_are_noted_also_for_what_is_done(home, tmp_path):
    runs = [toy_run(seed=0), toy_run(seed=1)]

    def experiment(name, runs):
        return Experiment(name, tmp_path / name, name, "paper1", None, [], [], {}, runs, {}, "toy")

    sweep(home, runs, 2, experiments=[experiment("one", runs)])
    sweep(home, runs[:1], 2, experiments=[experiment("two", runs[:1])])
    noted = [json.loads(home.run(run.id).meta.read_text())["experiments"] for run in runs]
    assert noted == [["one", "two"], ["one"]]


def test_a_gpu_that_is_not_there_is_said_before_anything_starts(home, monkeypatch):
    monkeypatch.setattr(devices, "visible_gpus", lambda: [])
    with pytest.raises(SpecError, match="asks for 1 GPU; this machine has none"):
        sweep(home, [toy_run(gpus=1)], 1)
    assert list(home.runs.iterdir()) == []


def test_a_run_over_several_nodes_is_refused_on_one_machine_before_anything_starts(home, monkeypatch):
    monkeypatch.delenv("SLURM_JOB_NUM_NODES", raising=False)
    run = dataclasses.replace(toy_run(), resources={"threads": 1, "nodes": 2})
    with pytest.raises(SpecError, match="asks for 2 nodes; at most 1 machine can be used") as error:
        sweep(home, [run], 1)
    assert "--on slurm" in error.value.fix and list(home.runs.iterdir()) == []
    monkeypatch.setenv("SLURM_JOB_NUM_NODES", "2")  # inside a job of SLURM
    assert sweep(home, [run], 1).counts() == {"done": 1}


def test_each_run_sees_its_own_gpu_and_others_none(home, monkeypatch):
    monkeypatch.setattr(devices, "visible_gpus", lambda: ["4", "5"])
    runs = [toy_run(seed=seed, gpus=1, iterations=20, sleep=0.02) for seed in range(2)]
    runs += [toy_run(seed=seed, gpus=0) for seed in range(2)]
    assert sweep(home, runs, 4).counts() == {"done": 4}
    seen = [json.loads(home.run(run.id).attempt(1).meta.read_text())["gpus"] for run in runs]
    assert sorted(seen[:2]) == ["4", "5"] and seen[2:] == ["", ""]


def test_cancel_and_the_protocol(home):
    runs = [toy_run(iterations=500, sleep=0.01), toy_run(seed=1, iterations=500, sleep=0.01), toy_run(seed=2)]
    dispatcher = LocalDispatcher(Setting(home, lambda run: create(home, run, ""), jobs=1))
    handles = dispatcher.submit(runs)
    assert [handle.run_id for handle in handles] == [run.id for run in runs]
    changes = []
    until = time.monotonic() + 30
    cancelled = False
    while dispatcher.active() and time.monotonic() < until:
        changes += dispatcher.poll(0.05)
        if not cancelled and run_state(home.run(runs[0].id)).step is not None:
            dispatcher.cancel(handles[:2])
            cancelled = True
    dispatcher.close()
    ends = {change.job: change.outcome for change in changes if change.state == "ended"}
    assert ends == {runs[0].id: "cancelled", runs[1].id: "cancelled", runs[2].id: "finished"}
    assert run_state(home.run(runs[0].id)).outcome == "cancelled"
    assert sweep(home, runs[2:], 1).counts() == {"done": 1}
