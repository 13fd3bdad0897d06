"""Sweeps on this machine with real processes: every run once, one failure at a time, going on after any stop."""

import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from pathlib import Path

import pytest
from toy_runs import comparable, no_step_twice, toy_run

from plat.cores import usable_cores
from plat.dispatch.driver import sweep
from plat.dispatch.local import client, machine
from plat.dispatch.local.dispatcher import LocalDispatcher
from plat.dispatch.local.shared_cores import SharedCores
from plat.errors import RunError, SpecError
from plat.spec.experiment import Experiment
from plat.store.home import Home
from plat.store.preparations import preparations
from plat.store.process import process_start
from plat.store.run_directory import lease
from plat.store.run_directory.creation import create
from plat.store.run_directory.state import run_state

TOY = Path(__file__).parents[2] / "toy"
SLOW = [{"seed": seed, "iterations": 100, "sleep": 0.02, "checkpoint_every": 5} for seed in range(3)]


@pytest.fixture
def home(tmp_path):
    return Home(tmp_path / "home").create()


class Recorder:
    """A Progress that remembers."""

    def __init__(self):
        self.lines, self.most_running = [], 0

    def change(self, change, *, success=None, seconds=0.0):
        self.lines.append((change.title, change.state, change.outcome))

    def update(self, views, totals):
        self.most_running = max(self.most_running, totals.running + totals.preparing)

    def message(self, text):
        self.lines.append(text)

    def end(self):
        self.lines.append("end")


def start(home, options, jobs=2):
    """A sweep in a process group of its own."""
    arguments = [sys.executable, str(TOY / "toy_sweep.py"), str(home.root), str(jobs), json.dumps(options)]
    return subprocess.Popen(
        arguments, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True
    )


def finish(process, timeout=60):
    """(exit code, output, the JSON of its last line)"""
    output = process.communicate(timeout=timeout)[0]
    last = output.strip().rpartition("\n")[2]
    return process.returncode, output, json.loads(last) if last.startswith("{") else None


def wait_for(condition, process=None, timeout=60):
    until = time.monotonic() + timeout
    while not condition():
        assert process is None or process.poll() is None, process.communicate()[0]
        assert time.monotonic() < until, "it did not happen"
        time.sleep(0.01)


def members(session):
    """Processes of a session that are not zombies: a sweep started here, its server, and its workers."""
    pids = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = stat_of(entry.name)
            except OSError:
                continue
            if int(fields[3]) == session and fields[0] != "Z":
                pids.append(int(entry.name))
    return pids


def stat_of(pid):
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()


def state_of(pid):
    """One letter: R running, S sleeping, T stopped."""
    return stat_of(pid)[0]


def parent_of(pid):
    return int(stat_of(pid)[1])


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
    assert broken.reason == "recipe broken failed: the recipe is broken"
    assert run_state(home.run(runs[4].id)).reason == broken.reason
    assert report.counts() == {"done": 5, "failed": 1}
    assert "preparing a" in next(home.logs.glob("prepare-*-a.txt")).read_text()


def test_a_stalled_run_is_killed_says_where_and_is_tried_once_more(home):
    runs = [toy_run(mischief="hang"), toy_run(mischief="hang_once"), toy_run(iterations=40, sleep=0.1)]
    report = sweep(home, runs, 3, stall_after=3.0)
    assert [report.ends[run.id].outcome for run in runs] == ["failed:stalled", "finished", "finished"]
    assert len(home.run(runs[0].id).attempts()) == 2
    assert "misbehave" in home.run(runs[0].id).attempt(1).log.read_text()  # the traceback of where it hung
    assert no_step_twice(home.run(runs[1].id))


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
    monkeypatch.setattr(machine, "gpus", lambda: [])
    with pytest.raises(SpecError, match="asks for 1 GPU; this machine has none"):
        sweep(home, [toy_run(gpus=1)], 1)
    assert list(home.runs.iterdir()) == []


def test_each_run_sees_its_own_gpu_and_others_none(home, monkeypatch):
    monkeypatch.setattr(machine, "gpus", lambda: ["4", "5"])
    runs = [toy_run(seed=seed, gpus=1, iterations=20, sleep=0.02) for seed in range(2)]
    runs += [toy_run(seed=seed, gpus=0) for seed in range(2)]
    assert sweep(home, runs, 4).counts() == {"done": 4}
    seen = [json.loads(home.run(run.id).attempt(1).meta.read_text())["gpus"] for run in runs]
    assert sorted(seen[:2]) == ["4", "5"] and seen[2:] == ["", ""]


def test_cancel_and_the_protocol(home):
    runs = [toy_run(iterations=500, sleep=0.01), toy_run(seed=1, iterations=500, sleep=0.01), toy_run(seed=2)]
    dispatcher = LocalDispatcher(home, lambda run: create(home, run, ""), slots=1)
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


def test_the_server_may_die_and_the_sweep_goes_on(home):
    process = start(home, SLOW)
    run = home.run(toy_run(**SLOW[0]).id)
    wait_for(lambda: run_state(run).step is not None, process)
    os.kill(parent_of(lease.holder(run)), signal.SIGKILL)
    code, output, last = finish(process)
    assert code == 0, output
    assert last["counts"] == {"done": 3} and "somebody else is running it" in output
    assert all(no_step_twice(home.run(toy_run(**options).id)) for options in SLOW)


def test_a_server_that_cannot_start_is_said_clearly(home, monkeypatch):
    monkeypatch.setattr(sys, "executable", "/bin/false")
    with pytest.raises(RunError, match="the worker server died") as error:
        sweep(home, [toy_run()], 1)
    assert error.value.mend and error.value.where


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_one_interrupt_saves_and_the_same_command_goes_on(home, number):
    process = start(home, SLOW)
    paths = [home.run(toy_run(**options).id) for options in SLOW]
    wait_for(lambda: all((run_state(path).step or 0) >= 1 for path in paths[:2]), process)
    os.killpg(process.pid, number)  # as a terminal does: everybody in the group gets it
    code, output, last = finish(process)
    assert code == 130 and "goes on from there" in output and "Traceback" not in output
    assert last["counts"] == {"interrupted": 2, "missing": 1}
    for path in paths[:2]:
        state = run_state(path)
        assert state.outcome == "interrupted"
        assert (
            max(int(p.name[5:]) for p in path.attempt(1).checkpoints.iterdir()) == state.step
        )  # saved where it stopped
    assert members(process.pid) == []
    code, output, last = finish(start(home, SLOW))
    assert code == 0 and last["counts"] == {"done": 3}
    assert all(no_step_twice(path) for path in paths)


def test_an_interrupt_while_the_server_still_loads_ends_at_once(home, monkeypatch):
    monkeypatch.setattr(client, "_START", "import time; time.sleep(1000)")
    runs = [toy_run(seed=seed) for seed in range(3)]
    timer = threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    report = sweep(home, runs, 2)
    timer.join()
    assert report.exit_code == 130 and report.counts() == {"interrupted": 2, "missing": 1}
    assert not any(run_state(home.run(run.id)).attempt for run in runs)


def test_an_interrupt_before_the_runs_ends_at_once(home):
    def wait():
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(1000)

    with pytest.raises(KeyboardInterrupt):
        sweep(home, [toy_run()], 1, before_runs=wait)
    assert list(home.runs.iterdir()) == []


def test_a_second_interrupt_kills(home):
    options = [{"mischief": "hang"}]
    process = start(home, options)
    path = home.run(toy_run(**options[0]).id)
    wait_for(lambda: run_state(path).step == 3, process)
    os.killpg(process.pid, signal.SIGINT)
    time.sleep(0.5)
    assert process.poll() is None  # a hanging run cannot save
    os.killpg(process.pid, signal.SIGINT)
    code, _, last = finish(process)
    assert code == 130 and last["counts"] == {"interrupted": 1} and members(process.pid) == []
    assert run_state(path).state == "interrupted" and lease.state(path) == "free"


@pytest.mark.parametrize("way", ["finish", "second interrupt", "stop", "kill the worker", "kill the server"])
def test_what_a_run_has_started_does_not_outlive_it(home, way):
    hangs = way in ("second interrupt", "kill the worker")
    options = [{"mischief": "child_and_hang" if hangs else "child", "iterations": 6 if way == "finish" else 80}]
    options[0]["sleep"] = 0.0 if way == "finish" else 0.02
    process = start(home, options, jobs=1)
    path, child = home.run(toy_run(**options[0]).id), home.cache / "child.txt"
    wait_for(lambda: child.exists() and child.read_text() and (run_state(path).step or 0) >= 3, process)
    if way == "kill the worker":
        os.kill(lease.holder(path), signal.SIGKILL)
        wait_for(lambda: process_start(int(child.read_text())) is None)
    elif way == "kill the server":
        os.kill(parent_of(lease.holder(path)), signal.SIGKILL)
    for _ in range({"stop": 1, "second interrupt": 2, "kill the worker": 2}.get(way, 0)):
        os.kill(process.pid, signal.SIGINT)
        time.sleep(0.5)  # two at once would count as one
    finish(process)
    wait_for(lambda: members(process.pid) == [])


def test_ctrl_z_suspends_the_runs_too_and_they_go_on(home):
    process = start(home, SLOW[:1])
    path = home.run(toy_run(**SLOW[0]).id)
    wait_for(lambda: run_state(path).step is not None, process)
    server = parent_of(lease.holder(path))
    os.killpg(process.pid, signal.SIGTSTP)
    wait_for(lambda: state_of(lease.holder(path)) == state_of(server) == "T", process)
    os.killpg(process.pid, signal.SIGCONT)
    code, output, last = finish(process)
    assert code == 0 and last["counts"] == {"done": 1}, output


def test_workers_do_not_outlive_a_killed_parent(home):
    process = start(home, SLOW)
    paths = [home.run(toy_run(**options).id) for options in SLOW]
    wait_for(lambda: all((run_state(path).step or 0) >= 1 for path in paths[:2]), process)
    os.kill(process.pid, signal.SIGKILL)
    process.communicate()
    wait_for(lambda: members(process.pid) == [])
    assert [run_state(path).outcome for path in paths[:2]] == ["interrupted"] * 2  # they saved first
    assert finish(start(home, SLOW))[2]["counts"] == {"done": 3}


def test_two_sweeps_at_once_do_each_run_once(home):
    options = [{"seed": seed, "iterations": 10, "sleep": 0.01, "recipe": "shared"} for seed in range(10)]
    sweeps = [start(home, options), start(home, options)]
    results = [finish(process) for process in sweeps]
    assert [code for code, *_ in results] == [0, 0], results
    assert [last["counts"] for *_, last in results] == [{"done": 10}] * 2
    for overrides in options:
        path = home.run(toy_run(**overrides).id)
        assert len(path.attempts()) == 1 and no_step_twice(path)
    assert sum(1 for line in home.history.read_text().splitlines() if '"run"' in line) == 10


def test_a_run_held_elsewhere_is_waited_for_and_an_unknown_one_reported(home):
    live, unknown = toy_run(seed=0), toy_run(seed=1)
    for run in (live, unknown):
        create(home, run, "")
    held = lease.take(home.run(unknown.id))
    text = json.loads(home.run(unknown.id).lease.read_text())
    held.release()
    home.run(unknown.id).lease.write_text(json.dumps(text | {"host": "elsewhere"}))
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        kept = lease.take(home.run(live.id))
        os.write(writer, b"x")
        time.sleep(1.0)
        kept.release()
        os._exit(0)
    os.read(reader, 1)
    recorder = Recorder()
    report = sweep(home, [live, unknown], 2, recorder)
    os.waitpid(pid, 0)
    assert (live.name, "waiting", None) in recorder.lines
    assert report.ends[live.id].state == "done" and report.ends[unknown.id].state == "unknown"
    assert "--steal" in report.ends[unknown.id].reason and report.exit_code == 3
    assert sweep(home, [live, unknown], 2, steal=True).counts() == {"done": 2}


@pytest.mark.chaos
@pytest.mark.parametrize("seed", range(20))
def test_kill_9_of_everything_at_a_random_moment_leaves_no_trace(home, tmp_path, seed):
    """The whole process group, up to five times, then once more to the end: equal to an undisturbed sweep."""
    options = [{"seed": i, "iterations": 30, "sleep": 0.01, "checkpoint_every": 4, "recipe": "r"} for i in range(4)]
    undisturbed = Home(tmp_path / "quiet").create()
    assert sweep(undisturbed, [toy_run(**overrides) for overrides in options], 2).counts() == {"done": 4}
    rng = random.Random(seed)
    for _ in range(rng.randint(1, 5)):
        process = start(home, options)
        time.sleep(rng.uniform(0.05, 1.6))
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
    code, output, _ = finish(start(home, options))
    assert code == 0, output
    for overrides in options:
        run_id = toy_run(**overrides).id
        assert comparable(home.run(run_id)) == comparable(undisturbed.run(run_id))
        assert no_step_twice(home.run(run_id))
        assert lease.state(home.run(run_id)) != "live"  # an orphan's: killed between its result and letting go


@pytest.fixture
def own_cores(tmp_path, monkeypatch):
    """A folder of core locks for this test alone, here and in the processes that it starts."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", None)  # it is remembered from the first call


@pytest.mark.skipif(usable_cores() < 2, reason="one core cannot be shared")
def test_a_second_sweep_takes_the_cores_that_are_left(own_cores, tmp_path):
    """Another home, the same machine: one run at a time while the first sweep has every core, all of them after it."""
    first, second = Home(tmp_path / "first").create(), Home(tmp_path / "second").create()
    long = [{"seed": seed, "iterations": 5000, "sleep": 0.02} for seed in range(usable_cores())]
    process = start(first, long, jobs=0)
    try:
        wait_for(lambda: SharedCores().free() == 0, process)
        crowded = Recorder()
        report = sweep(second, [toy_run(seed=seed, sleep=0.05) for seed in range(3)], progress=crowded)
        assert report.counts() == {"done": 3} and crowded.most_running == 1
        assert f"other sweeps use {usable_cores()} of {usable_cores()} cores" in str(crowded.lines)
        asked = Recorder()
        sweep(second, [toy_run(seed=seed, sleep=0.05) for seed in range(3, 6)], 2, asked)
        assert asked.most_running == 2 and "other sweeps" not in str(asked.lines)
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
    wait_for(lambda: SharedCores().free() == usable_cores())
    alone = Recorder()
    sweep(second, [toy_run(seed=seed, sleep=0.05) for seed in range(6, 9)], progress=alone)
    assert alone.most_running >= 2 and "other sweeps" not in str(alone.lines)
    assert SharedCores().free() == usable_cores()


def test_a_folder_of_cores_that_is_not_ours_is_not_used(tmp_path):
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    (tmp_path / "file").write_text("")
    for place in ("link", "file", "missing/deep"):
        cores = SharedCores(tmp_path / place)
        cores.take("job", 1)
        assert cores.free() == cores.count and not any((tmp_path / "real").iterdir())
