"""The parts of --on ray that need no Ray: its settings, and what is concluded from the jobs of its cluster."""

from __future__ import annotations

import json
import socket
import subprocess
import sys

import pytest

from plat.dispatch.dispatcher import SchedulerError
from plat.dispatch.driver import sweep
from plat.dispatch.ray import ray_refresh as ray_refresh
from plat.dispatch.ray.jobs import Attempt, Cluster, tune_folder
from plat.dispatch.ray.ray_refresh import DRIVERS, task_states
from plat.dispatch.ray.ray_settings import RaySettings, read_settings
from plat.dispatch.submitting import hand_over
from plat.errors import SpecError
from plat.processes.identification import this_process
from plat.store.coordination.submissions import open_record, open_submissions
from plat.store.home import Home
from plat.store.run_directory.creation import create
from plat.store.run_directory.state import run_state
from plat.trainer.resources import Resources

HERE = Cluster("one", "127.0.0.1:6379", ({"CPU": 2, "memory": 8 * 2**30},), {})


def test_the_address_is_local_unless_something_names_another(monkeypatch):
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    assert read_settings(()) == RaySettings(address="local")
    monkeypatch.setenv("RAY_ADDRESS", "10.0.0.1:6379")
    assert read_settings(("cluster.threads=2", "cluster.elastic=true")) == RaySettings("10.0.0.1:6379", 2, elastic=True)
    assert read_settings(("cluster.address=auto", "cluster.refresh=1")).address == "auto"


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("cluster=lab", "profiles are for SLURM"),
        ("cluster.addres=h:1", "no option 'addres'"),
        ("cluster.address=ray://head:10001", "is not the address of a Ray cluster"),
        ("cluster.address=head:²", "is not the address of a Ray cluster"),
        ("cluster.address=head:65536", "is not the address of a Ray cluster"),
        ("cluster.address=http://head:8265", "is not the address of a Ray cluster"),
        ("cluster.threads=two", "threads must be a whole number"),
        ("cluster.threads=-1", "threads must be a whole number"),
        ("cluster.threads=true", "threads must be a whole number"),
        ("cluster.gpus=1.5", "a share of one GPU such as 0.25, not 1.5"),
        ("cluster.gpus=-1", "gpus must be a whole number of GPUs"),
        ("cluster.gpus=.nan", "gpus must be a whole number of GPUs"),
        ("cluster.gpus=yes", "gpus must be a whole number of GPUs"),
        ("cluster.refresh=often", "refresh must be a number of seconds"),
        ("cluster.elastic=1", "elastic must be true or false"),
    ],
)
def test_a_wrong_setting_is_named_with_its_place(given, said):
    with pytest.raises(SpecError, match=said) as error:
        read_settings((given,))
    assert given in error.value.where and error.value.fix


def test_a_wrong_ray_address_in_the_environment_is_named_there(monkeypatch):
    monkeypatch.setenv("RAY_ADDRESS", "http://head:8265")
    with pytest.raises(SpecError) as error:
        read_settings(())
    assert "RAY_ADDRESS" in error.value.where


def test_a_share_of_a_gpu_replaces_what_the_trainer_states():
    stated = {"threads": 2, "gpus": 1}
    assert read_settings(("cluster.gpus=0.25",)).resources(stated) == Resources(threads=2, gpus=0.25)
    assert read_settings(("cluster.gpus=0.25",)).resources({"gpus": 0}).gpus == 0.25
    assert read_settings(("cluster.gpus=2",)).resources(stated).gpus == 2
    assert read_settings(()).resources(stated).gpus == 1


@pytest.mark.parametrize(
    ("needed", "said"),
    [
        (Resources(threads=64), ""),
        (Resources(gpus=1), "1 GPU,"),
        (Resources(gpus=0.25), "0.25 GPUs,"),
        (Resources(memory_mb=9000), "9000 MiB"),
        (Resources(nodes=2), "asks for 2 nodes, and only 1 of the Ray cluster"),
    ],
)
def test_only_what_no_node_can_ever_do_is_refused(needed, said):
    problem = HERE.never_fits(needed)
    assert said in problem and bool(problem) == bool(said)


def test_several_nodes_must_each_have_what_a_part_of_the_run_needs():
    cluster = Cluster(
        "",
        "",
        ({"CPU": 4, "GPU": 2, "memory": 2**30}, {"CPU": 4, "GPU": 2, "memory": 2**30}, {"CPU": 64, "memory": 2**40}),
        {},
    )
    assert cluster.never_fits(Resources(nodes=2, gpus=2)) == ""
    assert "asks for 3 nodes, and only 2 of the Ray cluster" in cluster.never_fits(Resources(nodes=3, gpus=2))
    assert "2000 MiB" in cluster.never_fits(Resources(nodes=2, gpus=2, memory_mb=2000))


class Jobs:
    """A Jobs API with these attempts, by the name of the submission. It records what it is told to start."""

    def __init__(self, **attempts):
        self.known, self.started = attempts, []

    def attempts(self):
        return dict(self.known)

    def submit(self, submission, attempt):
        self.started.append((submission.name, attempt))
        return f"{submission.name}-{attempt}"


def refresh(home, jobs=None, **options):
    ray_refresh.refresh(home, HERE, jobs or Jobs(), **options)


@pytest.fixture
def home(tmp_path):
    return Home(tmp_path / "home").create()


def submitted(home, toy_run, count=2, call=lambda *_: "job", **facts):
    """A submission of so many runs, each in a task of its own."""
    runs = [toy_run(seed=seed) for seed in range(count)]
    for run in runs:
        create(home, run, "")
    manifest = {"session": "one", "address": HERE.address, "local": False, "owner": this_process(), **facts}
    place = {"scheduler": "ray", "cluster": HERE.address}
    records = hand_over(home, place, [[run] for run in runs], lambda *_: manifest, call)
    submission = records[runs[-1].id].submission
    return submission, [home.run(run.id) for run in runs]


@pytest.fixture
def toy():
    from toy_runs import toy_run

    return toy_run


def test_a_driver_that_runs_keeps_its_runs_and_is_over_when_its_tasks_are(home, toy):
    submission, runs = submitted(home, toy)
    jobs = Jobs(**{submission.name: Attempt(1, False, "")})
    refresh(home, jobs)
    assert [run_state(paths).state for paths in runs] == ["queued", "queued"]
    submission.note_over("failed:node", "", 0)
    submission.note_over(None, "", 1)
    refresh(home, jobs)
    assert open_submissions(home) == [] and jobs.started == []


def test_while_a_driver_is_being_submitted_nobody_else_submits_it(home, toy):
    def call(submission, tasks, lock):
        refresh(home, jobs)
        return "job"

    jobs = Jobs()
    submitted(home, toy, call=call)
    assert jobs.started == []


def test_the_driver_of_a_submitter_that_was_killed_is_found_or_started(home, toy):
    """Ray refuses a second job of the same id, so the first attempt is submitted again without being listed."""

    def call(*_):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        submitted(home, toy, call=call)
    [submission] = open_submissions(home)
    jobs = Jobs()
    refresh(home, jobs)
    assert jobs.started == [(submission.name, 1)] and submission.job_id() == f"{submission.name}-1"


def test_a_driver_that_ended_before_its_tasks_is_replaced_until_it_ended_too_often(home, toy):
    submission, _ = submitted(home, toy)
    for attempt in range(1, DRIVERS + 1):
        tune_folder(submission, attempt).mkdir(parents=True)
        jobs = Jobs(**{submission.name: Attempt(attempt, True, "killed")})
        refresh(home, jobs)
        assert jobs.started == ([(submission.name, attempt + 1)] if attempt < DRIVERS else [])
    assert submission.end(0)["outcome"] == "failed:node" and "ended 5 times" in submission.end(0)["reason"]


def test_a_driver_that_cannot_be_started_is_one_message_and_gives_its_runs_back(home, toy):
    submission, runs = submitted(home, toy)
    with pytest.raises(SchedulerError, match="did not start on the cluster: No module named plat") as error:
        refresh(home, Jobs(**{submission.name: Attempt(1, True, "No module named plat")}))
    assert error.value.certain and f"ray job logs {submission.name}-1" in error.value.where and error.value.fix
    assert open_record(runs[0]) is None


def test_another_cluster_s_runs_are_left_to_it_unless_it_is_gone_or_they_are_stolen(home, toy):
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen()
        address = f"127.0.0.1:{server.getsockname()[1]}"
        _, runs = submitted(home, toy, 1, session="two", address=address)
        refresh(home)
        task_states(home)
        assert open_record(runs[0]) is not None
    task_states(home)  # nobody listens there any more
    assert open_record(runs[0]) is None


def test_a_loopback_address_of_another_machine_says_nothing_here(home, toy, monkeypatch):
    there = {"host": "another", "boot_id": "another", "user": "me"}
    monkeypatch.setattr("plat.dispatch.submitting.submitter", lambda: there)
    for count, address in enumerate(("127.0.0.1:1", "localhost:1", HERE.address), start=1):
        _, runs = submitted(home, toy, count, session="two", address=address)  # a further run
        task_states(home)
        refresh(home)
        assert open_record(runs[-1]) is not None


def test_another_cluster_s_runs_can_be_stolen(home, toy):
    _, runs = submitted(home, toy, 1, session="two", local=True, address="127.0.0.1:2")
    refresh(home)
    assert open_record(runs[0]) is not None
    refresh(home, steal=True)
    assert open_record(runs[0]) is None


def test_a_cluster_that_was_started_anew_has_nothing_of_the_old_one(home, toy):
    _, runs = submitted(home, toy, 1, session="earlier")
    refresh(home)
    assert open_record(runs[0]) is None


def test_a_ray_of_our_own_is_gone_with_its_process(home, toy):
    owner = subprocess.run(
        [
            sys.executable,
            "-c",
            "import json; from plat.processes.identification import this_process as t; print(json.dumps(t()))",
        ],
        capture_output=True,
        text=True,
        check=True,
    )

    _, runs = submitted(home, toy, 1, local=True, owner=json.loads(owner.stdout), session="gone")
    task_states(home)
    assert open_record(runs[0]) is None


@pytest.mark.parametrize("address", ["127.0.0.1:1", "a..b:6379"])
def test_a_cluster_that_is_not_there_is_named_at_once(home, toy, address):
    with pytest.raises(SchedulerError, match=f"no Ray cluster answers at {address}:") as error:
        sweep(home, [toy()], on="ray", cluster=(f"cluster.address={address}",))
    assert "ray start --head" in error.value.fix


def test_a_ray_of_our_own_cannot_be_left(home, toy, monkeypatch):
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    with pytest.raises(SpecError, match="so it cannot detach") as error:
        sweep(home, [toy()], on="ray", detach=True)
    assert error.value.where == "--detach" and "RAY_ADDRESS" in error.value.fix


def test_slurm_is_not_asked_about_what_ray_has(home, toy):
    submitted(home, toy, 1)
    assert open_submissions(home, "slurm") == [] and len(open_submissions(home, "ray")) == 1


def test_the_tuner_is_given_the_tasks_that_are_not_over_and_ends_when_only_cancelled_ones_wait(home, toy):
    from plat.dispatch.ray.tuner import RESTARTS, NothingLeft, Tasks

    needs = {"CPU": 1, "GPU": 0, "memory": 0, "nodes": 1}
    submission, _ = submitted(home, toy, 4, needs=[needs] * 4)
    submission.note_over(None, "its process has ended", 0)
    tasks = Tasks()
    tasks.add(submission)
    tasks.add(None)
    assert [tasks.suggest(trial)["task"] for trial in ("a", "b", "c")] == [1, 2, 3]
    assert tasks.suggest("d") == tasks.FINISHED
    tasks.on_trial_complete("a")
    tasks.on_trial_complete("b", error=True)
    assert f"its trial failed {RESTARTS + 1} times" in submission.end(2)["reason"]
    assert not NothingLeft(tasks).stop_all()
    submission.note_over("cancelled", "cancelled", 3)
    assert NothingLeft(tasks).stop_all()
