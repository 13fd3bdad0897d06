"""One run in this process: outcomes, what is written in which order, and going on after any kind of end."""

import errno
import json
import os
import shutil
import signal
import time

import plat_toy
import pytest
from toy_runs import comparable, no_step_twice, toy_run

from plat.errors import CheckpointError, HomeError, RunError, SpecError
from plat.runner import execution
from plat.runner.execution import execute
from plat.runner.failures import classify
from plat.store.durable import locked
from plat.store.home import Home
from plat.store.mlflow.record import read_record
from plat.store.provenance.code_state import CodeState
from plat.store.run_directory import lease
from plat.store.run_directory.attempts import record_failure, request_cancel, settle
from plat.store.run_directory.checkpoint import is_peak, list_checkpoints, load_checkpoint
from plat.store.run_directory.creation import create
from plat.store.run_directory.files import set_damaged_config_aside
from plat.store.run_directory.run_io import FileRunIO
from plat.store.run_directory.state import run_state
from plat.trainer.api import Outcome


@pytest.fixture
def home(tmp_path):
    return Home(tmp_path / "home").create()


def make(home, **options):
    return create(home, toy_run(**options), "a", code=CodeState(None, False))


def outcome_of(paths, number=1):
    return json.loads(paths.attempt(number).outcome.read_text())


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
    assert line["iterations"] == 6 and line["trainer"] == "plat_toy:SPEC" and line["run"] == paths.id
    facts = json.loads(paths.attempt(1).meta.read_text())
    assert facts["hardware"] and facts["pid"] == os.getpid() and facts["threads"] == 1


def test_facts_of_the_start_are_in_the_summary(home, monkeypatch):
    paths, train = make(home), plat_toy.train

    def with_facts(config, io):
        io.facts({"base_sha256": "aa", "parameters": 1})
        return train(config, io)

    monkeypatch.setitem(plat_toy.SPEC.__dict__, "load", lambda: with_facts)
    assert execute(home, paths.id) == "finished"
    summary = json.loads(paths.result.read_text())["summary"]
    assert summary["base_sha256"] == "aa" and summary["parameters"] == 3  # the trainer's own summary wins


def test_done_is_done(home):
    paths = make(home)
    execute(home, paths.id)
    before = {path: path.stat().st_mtime_ns for path in paths.root.rglob("*")}
    assert execute(home, paths.id) == "finished"
    assert {path: path.stat().st_mtime_ns for path in paths.root.rglob("*")} == before


@pytest.mark.parametrize(
    ("mischief", "outcome", "word"),
    [
        ("nan", "failed:nan", "not a number"),
        ("memory", "failed:oom", "MemoryError"),
        ("error", "failed:error", "a mistake in the toy"),
    ],
)
def test_failures_have_a_class_a_reason_and_a_traceback(home, mischief, outcome, word):
    paths = make(home, mischief=mischief)
    assert execute(home, paths.id) == outcome
    recorded = outcome_of(paths)
    assert recorded["outcome"] == outcome and word in recorded["reason"] + recorded["error"] and recorded["step"] == 3
    assert "Traceback" in paths.attempt(1).log.read_text() and not paths.result.exists()
    assert run_state(paths).state == "failed" and lease.state(paths) == "free" and not home.history.exists()


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
    paths, train = make(home), plat_toy.train

    def slow(config, io):
        paths.result.write_text(json.dumps({"outcome": "finished", "attempt": 7, "time": 1.0}))
        return train(config, io)

    monkeypatch.setitem(plat_toy.SPEC.__dict__, "load", lambda: slow)
    assert execute(home, paths.id) == "finished"
    assert json.loads(paths.result.read_text())["attempt"] == 7 and not home.history.exists()


def test_a_full_disk_is_its_own_class_and_what_was_recorded_stays(home):
    paths = make(home, mischief="disk")
    pid = os.fork()
    if pid == 0:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        os._exit({"failed:disk": 0}.get(execute(home, paths.id), 1))
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    assert run_state(paths).outcome == "failed:disk"
    assert (paths.attempt(1).checkpoints / "step-000002").exists()


def test_a_disk_too_full_for_the_outcome_still_ends_in_class_disk(home, monkeypatch):
    paths = make(home)

    def full(*arguments, **more):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr(execution, "create", full)
        assert execute(home, paths.id) == "failed:disk"
    assert not paths.result.exists() and lease.state(paths) == "free"
    assert execute(home, paths.id) == "finished" and no_step_twice(paths)


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


def interrupted(home, monkeypatch, **options):
    """A run that was stopped after a checkpoint, and its paths."""
    paths = make(home, **options)
    with monkeypatch.context() as patch:
        patch.setattr(FileRunIO, "should_stop", lambda self: self.step == 4)
        assert execute(home, paths.id) == "interrupted"
    return paths


def undisturbed(tmp_path, **options):
    """What the same run gives without any damage."""
    other = Home(tmp_path / "undisturbed").create()
    execute(other, make(other, **options).id)
    return comparable(other.run(toy_run(**options).id))


def test_an_edited_config_is_not_executed(home, monkeypatch):
    paths = interrupted(home, monkeypatch)
    paths.config.write_text(paths.config.read_text().replace("seed: 0", "seed: 1"))
    with pytest.raises(HomeError, match=r"config\.yaml is not the one the run was made with"):
        execute(home, paths.id)
    assert set_damaged_config_aside(paths) == paths.root / "config.yaml.damaged-1"
    make(home)
    assert execute(home, paths.id) == "finished"


@pytest.mark.parametrize("damage", ["", "{", "[]", '{"step": 6}', "flip", "folder"])
def test_a_damaged_result_is_set_aside_and_the_run_completes(home, tmp_path, damage):
    paths = make(home)
    execute(home, paths.id)
    whole = paths.result.read_bytes()
    if damage == "folder":
        paths.result.unlink()
        paths.result.mkdir()
    else:
        paths.result.write_bytes(whole.replace(b'"step": 6', b'"step": 7') if damage == "flip" else damage.encode())
    now = run_state(paths)
    assert (now.state, now.damage, now.reason) == ("interrupted", "result.json is damaged", "result.json is damaged")
    assert execute(home, paths.id) == "finished" and run_state(paths).state == "done"
    assert "result.json is damaged; it is now result.json.damaged-1" in paths.attempt(2).log.read_text()
    assert (paths.root / "result.json.damaged-1").exists()
    assert comparable(paths) == undisturbed(tmp_path)


@pytest.mark.parametrize("damage", ["remove a line", "garble a line", "flip a digit", "remove the file"])
def test_damaged_events_of_an_earlier_attempt_are_done_again(home, tmp_path, monkeypatch, damage):
    paths = interrupted(home, monkeypatch)
    events = paths.attempt(1).events
    lines = events.read_bytes().splitlines(keepends=True)
    if damage == "remove a line":
        events.write_bytes(b"".join(lines[:3] + lines[4:]))
    elif damage == "garble a line":
        events.write_bytes(b"".join([*lines[:3], b"garbage\n", *lines[4:]]))
    elif damage == "flip a digit":
        events.write_bytes(events.read_bytes().replace(b'"walk/norm":1', b'"walk/norm":2'))
    else:
        events.unlink()
    assert damage != "flip a digit" or events.read_bytes() != b"".join(lines)
    assert execute(home, paths.id) == "finished"
    assert "the attempts so far are now in attempts.damaged-1" in paths.attempt(2).log.read_text()
    assert comparable(paths) == undisturbed(tmp_path) and (paths.root / "attempts.damaged-1/001").is_dir()


@pytest.mark.parametrize("finished", [False, True])
def test_a_folder_where_a_file_should_be_and_the_other_way_round(home, tmp_path, monkeypatch, finished):
    """Whatever is in the way below the run's directory, the run completes, or a HomeError names the place."""
    paths = make(home) if finished else interrupted(home, monkeypatch)
    if finished:
        execute(home, paths.id)
    for name in sorted(path.relative_to(paths.root) for path in paths.root.rglob("*")):
        other = Home(tmp_path / "other")
        shutil.rmtree(other.root, ignore_errors=True)
        shutil.copytree(home.root, other.root)
        place = other.run(paths.id)
        if (place.root / name).is_dir():
            shutil.rmtree(place.root / name)
            (place.root / name).write_text("")
        else:
            (place.root / name).unlink()
            (place.root / name).mkdir()
        run_state(place), read_record(place)
        try:
            set_damaged_config_aside(place)
            make(other)
            assert execute(other, place.id) == "finished" and run_state(place).state == "done", name
        except HomeError as error:
            assert str(name) in error.render() and error.mend, name


def test_a_file_system_that_refuses_locks_is_said(home, monkeypatch):
    paths = make(home)

    def refuse(*arguments):
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr("fcntl.flock", refuse)
    with pytest.raises(HomeError, match="No locks available") as error:
        execute(home, paths.id)
    assert error.value.where == str(paths.lock)
    with pytest.raises(HomeError, match="No locks available") as error, locked(home.meta_lock):
        pass
    assert error.value.where == str(home.meta_lock)


def test_a_damaged_peak_never_passes_for_an_older_one(home, tmp_path, monkeypatch, caplog):
    """The run must not go on from a checkpoint whose peak is lost: it ends as if nothing had been damaged."""
    paths = interrupted(home, monkeypatch, iterations=8)
    saved = list_checkpoints(paths.attempt(1).checkpoints)
    peaks = [path for _, path in saved if is_peak(path)]
    assert peaks[-1] != saved[-1][1]
    (peaks[-1] / "tensors.safetensors").write_bytes(b"damaged")
    assert execute(home, paths.id) == "finished"
    assert "the peak checkpoint of step" in caplog.text
    shutil.rmtree(peaks[-1])  # `comparable` loads every checkpoint
    assert comparable(paths) == undisturbed(tmp_path, iterations=8)


def test_a_summary_that_is_not_json_is_the_trainers_mistake(home, monkeypatch):
    paths = make(home)
    monkeypatch.setitem(plat_toy.SPEC.__dict__, "load", lambda: lambda config, io: Outcome("finished", {"x": {1, 2}}))
    assert execute(home, paths.id) == "failed:error"
    assert "not JSON serializable" in outcome_of(paths)["reason"]


class OutOfMemoryError(RuntimeError):
    """As torch's, by name."""


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (RunError("x", failure_class="nan"), "failed:nan"),
        (RunError("x"), "failed:error"),
        (FloatingPointError("overflow"), "failed:nan"),
        (MemoryError(), "failed:oom"),
        (OutOfMemoryError("CUDA"), "failed:oom"),
        (RuntimeError("CUDA out of memory. Tried to allocate"), "failed:oom"),
        (RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried"), "failed:oom"),
        (OSError(errno.ENOSPC, "full"), "failed:disk"),
        (OSError(errno.EDQUOT, "quota"), "failed:disk"),
        (OSError(errno.ENOENT, "absent"), "failed:error"),
        (SystemExit(3), "failed:error"),
        (SpecError("wrong"), "failed:error"),
        (KeyError("k"), "failed:error"),
    ],
)
def test_classes(error, expected):
    assert classify(error)[0] == expected
    wrapped = RuntimeError("while training")
    wrapped.__cause__ = error
    assert classify(wrapped)[0] == expected
    assert "\n" not in classify(error)[1]


def cut(path):
    file = path / "tensors.safetensors"
    os.truncate(file, file.stat().st_size // 2)


def flip(path):
    file = path / "tensors.safetensors"
    data = bytearray(file.read_bytes())
    data[-3] ^= 1
    file.write_bytes(data)


def folder_for_a_file(path):
    (path / "tensors.safetensors").unlink()
    (path / "tensors.safetensors").mkdir()


def file_for_a_folder(path):
    shutil.rmtree(path)
    path.write_text("")


def of_another_run(path):
    """Of the same trainer and step: its numbers would go on as if nothing had happened."""
    home = Home(path.parents[5])
    paths = make(home, seed=99)
    execute(home, paths.id)
    saved = list_checkpoints(paths.attempt(1).checkpoints)[-1][1]
    meta = json.loads((saved / "meta.json").read_text())
    shutil.rmtree(path)
    shutil.copytree(saved, path.with_name(f"step-{meta['step']:06d}"), dirs_exist_ok=True)


DAMAGES = {
    "cut": cut,
    "flip": flip,
    "empty tensors": lambda path: (path / "tensors.safetensors").write_bytes(b""),
    "empty meta": lambda path: (path / "meta.json").write_bytes(b""),
    "empty folder": lambda path: [file.unlink() for file in path.iterdir()],
    "folder for a file": folder_for_a_file,
    "file for a folder": file_for_a_folder,
    "of another run": of_another_run,
}


@pytest.mark.parametrize("every", [False, True], ids=["newest", "all"])
@pytest.mark.parametrize("kind", DAMAGES)
def test_a_damaged_checkpoint_never_changes_the_numbers(home, tmp_path, monkeypatch, kind, every):
    """The run goes on from an older checkpoint, or from the beginning, to the result of an undisturbed one."""
    paths = interrupted(home, monkeypatch, iterations=8)
    saved = [path for _, path in list_checkpoints(paths.attempt(1).checkpoints)]
    assert len(saved) > 1
    for path in saved if every else saved[-1:]:
        DAMAGES[kind](path)
    assert execute(home, paths.id) == "finished"
    for _, path in list_checkpoints(paths.attempt(1).checkpoints):  # `comparable` loads every checkpoint
        try:
            load_checkpoint(path)
        except CheckpointError:
            path.rename(paths.root / path.name)
    assert comparable(paths) == undisturbed(tmp_path, iterations=8)
