"""The parts of the local dispatcher that need no processes: reading ends, the machine, progress lines, the board."""

import io
import os
import signal
import time
from dataclasses import replace

import pytest
from toy_runs import toy_run

from plat.dispatch import progress
from plat.dispatch.dispatcher import ENDED, QUEUED, RUNNING, WAITING, Change
from plat.dispatch.follower import View
from plat.dispatch.local.devices import visible_gpus
from plat.dispatch.local.local_decisions import oom_kills, read_end, stall_signal
from plat.dispatch.local.local_dispatcher import LocalDispatcher
from plat.dispatch.local.schedule import make_jobs, thread_environment, trainers_that_train
from plat.dispatch.progress import Board, Totals, summary
from plat.dispatch.setting import Setting
from plat.processes.own_process import usable_cores
from plat.processes.process_tree import signal_name
from plat.store.coordination.preparations import announced
from plat.store.home import Home
from plat.store.provenance.code_state import CodeState
from plat.store.run_directory.attempts import new_attempt, request_cancel
from plat.store.run_directory.creation import create
from plat.store.run_directory.run_io import FileRunIO
from plat.store.run_directory.spool import SpoolWriter
from plat.store.run_directory.state import run_state
from plat.trainer import heartbeat


def job_for(**options):
    return make_jobs([toy_run(**options)])[-1]


@pytest.mark.parametrize(
    ("number", "outcome"),
    [
        (signal.SIGKILL, "failed:node"), (signal.SIGSEGV, "failed:error"), (signal.SIGABRT, "failed:error"),
        (signal.SIGTERM, "interrupted"), (signal.SIGXCPU, "failed:timeout"), (signal.SIGUSR1, "failed:node"),
        (signal.SIGRTMIN + 6, "failed:node"),  # Python has no name for it
    ],
)  # fmt: skip
def test_deaths(number, outcome):
    job = job_for()
    job.oom_kills = 5
    assert read_end(int(number), None, job, 5)[0] == outcome


def test_only_trainers_with_something_to_train_are_warmed_up():
    idle, busy = toy_run(iterations=0), toy_run()
    assert trainers_that_train([idle]) == []
    assert trainers_that_train([idle, busy, busy]) == [busy.trainer]


def test_a_server_killed_by_a_signal_without_a_name_is_named_by_number():
    number = int(signal.SIGRTMIN) + 6
    assert signal_name(number) == f"signal {number}" and signal_name(15) == "SIGTERM"


def test_a_kill_is_out_of_memory_only_with_evidence():
    job = job_for()
    for before, after, outcome in [(5, 6, "oom"), (5, 5, "node"), (None, 6, "node"), (5, None, "node")]:
        job.oom_kills = before
        assert read_end(int(signal.SIGKILL), None, job, after)[0] == f"failed:{outcome}"


def test_what_the_process_said_and_what_we_did_to_it_count_more_than_its_status():
    job = job_for()
    assert read_end(0, {"outcome": "finished", "reason": ""}, job, None) == ("finished", "")
    unsaid = "the process ended with exit code 7 and recorded no outcome"
    assert read_end(7 << 8, None, job, None) == ("failed:error", unsaid)
    job.ending = ("failed:stalled", "no event for 900 s")
    assert read_end(int(signal.SIGABRT), None, job, None) == job.ending


def test_each_preparation_is_a_job_unless_its_result_is_in_the_cache():
    runs = [toy_run(seed=0), toy_run(seed=1, recipe="b"), toy_run(seed=2, recipe="a"), toy_run(seed=3, recipe="b")]
    jobs = make_jobs(runs)
    assert [job.title for job in jobs[:2]] == ["recipe b", "recipe a"]
    assert [job.id for job in jobs[2:]] == [run.id for run in runs]
    assert [job.needs and job.needs.title for job in jobs[2:]] == [None, "recipe b", "recipe a", "recipe b"]
    jobs = make_jobs(runs, cached={"b"})
    assert [job.title for job in jobs if job.kind == "prepare"] == ["recipe a"]
    assert [job.needs and job.needs.title for job in jobs[1:]] == [None, None, "recipe a", None]


def test_this_machine():
    assert 1 <= usable_cores() <= (os.cpu_count() or 1)
    assert oom_kills() is None or oom_kills() >= 0
    assert set(thread_environment(3).values()) == {"3"}


def test_gpus_are_those_that_are_visible(monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "2, GPU-abc")
    assert visible_gpus() == ["2", "GPU-abc"]
    for nothing in ("", "-1"):
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", nothing)
        assert visible_gpus() == []


def test_a_run_that_beats_between_two_events_is_not_stalled(tmp_path, monkeypatch):
    """Such as the first probe of a large model, which may take longer than any limit."""
    monkeypatch.setattr(heartbeat, "EVERY", 0.0)
    home, job = Home(tmp_path).create(), job_for()
    attempt = home.run(job.run.id).attempt(1)
    attempt.root.mkdir(parents=True)
    for _ in range(3):
        job.grown = time.monotonic() - 10
        with heartbeat.beating(attempt.alive.touch):
            heartbeat.beat()
        assert stall_signal(job, home, 5.0) is None
        time.sleep(0.01)
    job.grown = time.monotonic() - 10
    heartbeat.beat()  # outside of a run
    assert stall_signal(job, home, 5.0) == signal.SIGABRT


def test_a_stall_is_the_lack_of_events_not_of_life(tmp_path):
    home, job = Home(tmp_path).create(), job_for()
    job.grown = time.monotonic()
    events = home.run(job.run.id).attempt(1).events
    events.parent.mkdir(parents=True)
    spool = SpoolWriter(events, job.run.id)
    for step in range(20):  # slow but moving: never stalled
        spool.append(step, {"a": 1})
        assert stall_signal(job, home, 0.0) is None
    job.grown -= 10
    assert stall_signal(job, home, 60.0) is None
    assert stall_signal(job, home, 5.0) == signal.SIGABRT
    assert job.ending[0] == "failed:stalled" and stall_signal(job, home, 5.0) is None
    job.kill_at = time.monotonic()
    assert stall_signal(job, home, 5.0) == signal.SIGKILL
    preparation = make_jobs([toy_run(recipe="a")])[0]
    preparation.grown = -1e9
    assert stall_signal(preparation, home, 1.0) is None


def test_the_board_follows_spools_as_they_grow(tmp_path):
    home = Home(tmp_path).create()
    runs = [toy_run(seed=seed, iterations=10) for seed in range(4)]
    jobs = {job.id: job for job in make_jobs(runs)}
    running, waiting, ended, queued = jobs.values()
    running.state, waiting.state, ended.state, queued.state = RUNNING, WAITING, ENDED, QUEUED
    ended.outcome, ended.seconds = "stopped:low_success", 30.0
    running.started = time.monotonic() - 5
    board = Board(home, jobs, done_before=7, failed_before=1)
    assert [view.step for view in board.views()] == [None, None]
    events = home.run(running.run.id).attempt(1).events
    events.parent.mkdir(parents=True)
    spool = SpoolWriter(events, running.run.id)
    spool.append(0, {"val/success": 0.25})
    view = board.views()[0]
    assert (view.step, view.iterations, view.success, view.eta) == (0, 10, 0.25, None)
    spool.append(5, {"x": 1.0})
    view = board.views()[0]
    assert (view.step, view.success) == (5, 0.25) and view.eta is not None and view.seconds >= 5
    assert board.measured(running) == "success 25.0 %"
    totals = board.totals(board.views(), 2)
    assert (totals.runs, totals.done, totals.failed) == (12, 8, 1)
    assert (totals.running, totals.waiting, totals.queued) == (1, 1, 1)
    assert totals.eta >= 15.0  # one more of 30 s on two slots


def test_the_board_shows_how_preparations_go(tmp_path):
    home = Home(tmp_path).create()
    preparation = make_jobs([toy_run(recipe="a")])[0]
    preparation.state, preparation.started = RUNNING, time.monotonic() - 10
    board = Board(home, {preparation.id: preparation})
    (view,) = board.views()
    assert (view.title, view.step, view.note, view.eta) == ("recipe a", None, "", None)
    home.logs.mkdir()
    with announced(home, preparation.id, preparation.title):
        home.job_log(preparation.id).write_text("base model: step 300/1200, loss 2.1\n")
        (view,) = board.views()
    assert (view.step, view.iterations, view.note) == (300, 1200, "base model: step 300/1200, loss 2.1")
    assert view.eta == pytest.approx(3 * view.seconds) and board.totals([view], 2).preparing == 1


def test_what_was_logged_before_the_first_look_is_known_and_damage_is_passed_over(tmp_path):
    home, (job,) = Home(tmp_path).create(), make_jobs([toy_run(iterations=10)])
    job.state = RUNNING
    path = home.run(job.run.id).attempt(1).events
    path.parent.mkdir(parents=True)
    spool = SpoolWriter(path, job.run.id)
    spool.append(0, {"val/success": 0.5})
    spool.append(3, {"x": 0.5})
    with path.open("a") as file:
        file.write("damaged\n")
    board = Board(home, {job.id: job})
    assert [(view.step, view.success) for view in board.views()] == [(3, 0.5)]
    spool.append(4, {"val/success": 0.75})
    assert [(view.step, view.success) for view in board.views()] == [(4, 0.75)]


def test_what_a_run_is_doing_is_shown_until_its_first_event(home):
    job = job_for()
    job.state = RUNNING
    paths = create(home, job.run, "a", code=CodeState())
    attempt = FileRunIO(paths, new_attempt(paths, 1), home.cache, lambda: False)
    board = Board(home, {job.id: job})
    assert board.views()[0].note == ""
    attempt.status("starting Ray\n")
    assert board.views()[0].note == "starting Ray"
    attempt.status("starting 2 workers")
    assert board.views()[0].note == "starting 2 workers"
    attempt.log(0, {"val/success": 0.5})
    attempt.close()
    assert board.views()[0].note == ""


STARTING = View("1", "toy-s0", "starting", None, 10, seconds=2.0, note="starting Ray and its workers")


def test_a_line_for_each_thing_that_a_starting_run_is_doing():
    stream = io.StringIO()
    plain = progress.Plain(stream)
    for note in ("starting Ray", "starting Ray", "importing verl", ""):
        plain.update([replace(STARTING, note=note)], TOTALS)
    lines = [line.split("] ", 1)[1] for line in stream.getvalue().splitlines()]
    assert lines == ["starting    toy-s0: starting Ray", "starting    toy-s0: importing verl"]


@pytest.mark.parametrize("width", [70, 110])
def test_the_table_shows_what_a_starting_run_is_doing_below_its_name(width):
    from rich.console import Console

    console = Console(file=io.StringIO(), width=width)
    with console.capture() as captured:
        console.print(progress.Live(console)._table([STARTING, VIEW], TOTALS))
    lines = captured.get().splitlines()
    assert max(map(len, lines)) <= width and "starting  " in next(line for line in lines if "toy-s0" in line)
    assert "starting Ray and its workers" in " ".join(" ".join(line.split()) for line in lines)


VIEW = View("2", "toy-s0", "running", 3, 10, 0.5, seconds=12.0, eta=28.0)
LINE = "base model: step 851/1500, loss 0.5"
PREPARING = View("p", "base model", "preparing", 851, 1500, seconds=23.0, eta=12.0, note=LINE, kind="prepare")
TOTALS = Totals(runs=72, done=12, failed=1, running=2, waiting=1, queued=56, preparing=1, eta=750.0)
TEXT = "12 of 72 done, 1 failed, 1 preparing, 2 running, 1 elsewhere, 56 to go, about 12.5 min left"


def test_plain_lines(monkeypatch):
    stream = io.StringIO()
    plain = progress.choose(stream)
    assert isinstance(plain, progress.Plain)
    plain.change(Change("a", "run", "toy-s0", RUNNING))
    plain.change(Change("a", "run", "toy-s0", ENDED, "finished"), measured="success 43.0 %", seconds=28.0)
    plain.change(Change("a", "run", "toy-s1", ENDED, "failed:nan", "not a number"), seconds=3.0)
    plain.change(Change("p", "prepare", "base model", ENDED, "finished"), seconds=3.0)
    plain.change(Change("a", "run", "toy-s2", QUEUED, "failed:node", "killed"))
    plain.change(Change("a", "run", "toy-s3", WAITING))
    plain.update([VIEW], TOTALS)  # too early for a summary
    monkeypatch.setattr(progress, "SUMMARY_EVERY", 0.0)
    plain.update([VIEW], TOTALS)
    plain.update([VIEW, PREPARING, replace(PREPARING, state="elsewhere")], TOTALS)  # nothing new but the preparations
    plain.end()
    lines = [line.split("] ", 1)[1] for line in stream.getvalue().splitlines()]
    assert lines == [
        "started     toy-s0",
        "finished    toy-s0 (28 s, success 43.0 %)",
        "failed:nan  toy-s1 (3.0 s): not a number",
        "prepared    base model (3.0 s)",
        "again       toy-s2: failed:node, killed",
        "waiting     toy-s3: another process is running it",
        TEXT,
        "preparing   base model (23 s, about 12 s left): base model: step 851/1500, loss 0.5",
        "preparing   base model (elsewhere): base model: step 851/1500, loss 0.5",
    ]


def test_brief_lines_have_what_went_wrong_and_rarer_summaries(monkeypatch):
    stream, now = io.StringIO(), [0.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    brief = progress.choose(stream, each=False)
    brief.change(Change("a", "run", "toy-s0", RUNNING))
    brief.change(Change("a", "run", "toy-s0", ENDED, "finished"), measured="success 43.0 %", seconds=28.0)
    brief.change(Change("a", "run", "toy-s1", ENDED, "failed:nan", "not a number"), seconds=3.0)
    for now[0] in map(float, range(75)):
        brief.update([VIEW], replace(TOTALS, done=int(now[0])))
    brief.end()
    failed, *lines = [line.split("] ", 1)[1] for line in stream.getvalue().splitlines()]
    assert failed == "failed:nan  toy-s1 (3.0 s): not a number"
    assert [line.partition(" ")[0] for line in lines] == ["10", "30", "70", "74"]
    assert [line.endswith("; finished toy-s0 (28 s, success 43.0 %)") for line in lines] == [True, True, True, False]


def test_a_table_on_a_terminal():
    from rich.console import Console

    stream = io.StringIO()
    live = progress.Live(Console(file=stream, force_terminal=True, width=110))
    live.update([VIEW], TOTALS)
    live.message("[odd] markup is text")
    live.change(Change("a", "run", "toy-s1", ENDED, "finished"), measured="success 43.0 %", seconds=28.0)
    live.end()
    text = stream.getvalue()
    for part in ("toy-s0", "3/10", "50.0 %", "28 s", TEXT.split(", about")[0], "[odd] markup", "finished    toy-s1"):
        assert part in text


def test_the_time_left_is_not_told_before_a_run_has_ended(tmp_path):
    """The first iterations of the first runs are the slowest: they said "20 min left" at the start of 7 minutes."""
    jobs = {str(seed): job_for(seed=seed) for seed in range(3)}
    running, queued, last = jobs.values()
    running.state = "running"
    board = Board(Home(tmp_path).create(), jobs)
    views = [View("a", "a", "running", 1, 20, seconds=10.0, eta=190.0)]
    assert board.totals(views, 1).eta is None
    assert "time left not known before a run has ended" in summary(board.totals(views, 1))
    queued.state, queued.outcome, queued.seconds = "ended", "finished", 30.0
    assert board.totals(views, 1).eta == 30.0 + 190.0
    last.state, last.outcome, queued.seconds = "ended", "finished", 0.0
    assert board.totals(views, 1).eta == 190.0, "nothing waits for a slot"


def test_runs_that_were_interrupted_are_counted():
    assert summary(replace(TOTALS, done=10, eta=None)).startswith("10 of 72 done, 1 failed, 2 interrupted, 1 preparing")


def test_a_run_that_was_asked_to_end_before_it_began_does_not_begin_in_a_task(home):
    """A task's runs wait for each other: the mark of a waiting one must hold. A sweep of one's own drops it."""
    runs = [toy_run(seed=seed) for seed in range(2)]
    for run in runs:
        request_cancel(create(home, run, "test"))
    for heeds_marks, state in ((True, "missing"), (False, "done")):
        dispatcher = LocalDispatcher(Setting(home, lambda run: home.run(run.id), jobs=1), heeds_marks=heeds_marks)
        dispatcher.submit(runs)
        while dispatcher.active():
            dispatcher.poll(0.1)
        dispatcher.close()
        assert {run_state(home.run(run.id)).state for run in runs} == {state}
