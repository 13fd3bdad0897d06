"""The parts of --on ray that need no Ray: its settings, and what is concluded from the names of actors."""

from __future__ import annotations

import json
import socket
import subprocess
import sys

import pytest

from plat.dispatch.dispatcher import SchedulerError
from plat.dispatch.driver import sweep
from plat.dispatch.ray import bridge as ray_bridge
from plat.dispatch.ray import ray_refresh as ray_refresh
from plat.dispatch.ray.bridge_client import Cluster, Node
from plat.dispatch.ray.ray_refresh import task_states
from plat.dispatch.ray.ray_settings import RaySettings, read_settings
from plat.dispatch.submitting import hand_over
from plat.errors import SpecError
from plat.processes.identification import this_process
from plat.store.coordination.submissions import open_record, open_submissions
from plat.store.home import Home
from plat.store.run_directory.creation import create
from plat.store.run_directory.state import run_state
from plat.trainer.resources import Resources

HERE = Cluster("one", "127.0.0.1:6379", {}, (Node(2, 0, 8 * 2**30),))


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
    cluster = Cluster("", "", {}, (Node(4, 2, 2**30), Node(4, 2, 2**30), Node(64, 0, 2**40)))
    assert cluster.never_fits(Resources(nodes=2, gpus=2)) == ""
    assert "asks for 3 nodes, and only 2 of the Ray cluster" in cluster.never_fits(Resources(nodes=3, gpus=2))
    assert "2000 MiB" in cluster.never_fits(Resources(nodes=2, gpus=2, memory_mb=2000))


def test_a_group_without_its_actor_is_removed_when_it_was_missing_twice(monkeypatch):
    removed = []
    monkeypatch.setattr(ray_bridge, "remove_group", removed.append)
    bridge = ray_bridge.Bridge()
    bridge._remove_orphans({"plat-b_0"})
    assert removed == [], "its actor may not have been made yet"
    bridge._remove_orphans({"plat-a_0"})
    assert removed == []
    bridge._remove_orphans({"plat-a_0", "plat-b_0"})
    assert removed == ["plat-a_0"]


def refresh(home, cluster, names, **options):
    return ray_refresh.refresh(home, cluster, lambda: names, **options)


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


def test_an_actor_that_is_listed_has_its_run_and_one_that_is_not_is_over(home, toy):
    submission, runs = submitted(home, toy)
    assert refresh(home, HERE, {f"{submission.name}_0"}) == []
    assert [run_state(paths).state for paths in runs] == ["queued", "missing"]
    assert open_record(runs[1]) is None and submission.end(1)["outcome"] == "failed:node"
    refresh(home, HERE, set())
    assert open_submissions(home) == []


def test_while_actors_are_being_started_none_counts_as_lost(home, toy):
    """Another sweep asks in the middle of the call, when the first of two actors is listed."""

    def call(submission, tasks, lock):
        assert refresh(home, HERE, {f"{submission.name}_0"}) == []
        assert refresh(home, HERE, set()) == []
        return "job"

    submission, runs = submitted(home, toy, call=call)
    assert [run_state(paths).state for paths in runs] == ["queued", "queued"]
    assert not submission.is_over(0) and not submission.is_over(1)


def test_an_actor_that_was_started_while_the_names_were_asked_for_is_not_lost(home, toy):
    def ask():
        runs.extend(submitted(home, toy)[1])
        return set()

    runs = []
    submitted(home, toy, 1)
    ray_refresh.refresh(home, HERE, ask)
    assert run_state(runs[1]).state == "queued"


def test_actors_of_a_submitter_that_was_killed_in_the_middle_are_followed_and_the_rest_is_given_back(home, toy):
    def call(*_):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        submitted(home, toy, call=call)
    [submission] = open_submissions(home)
    names = {f"{submission.name}_1"}
    refresh(home, HERE, names)
    assert not submission.is_over(0) and submission.job_id() == submission.name
    refresh(home, HERE, names)
    assert submission.is_over(0) and not submission.is_over(1)


def test_an_actor_whose_task_is_over_is_not_needed(home, toy):
    submission, _ = submitted(home, toy)
    submission.note_over("cancelled", "cancelled", 1)
    assert refresh(home, HERE, {f"{submission.name}_{task}" for task in (0, 1)}) == [f"{submission.name}_1"]


def test_another_cluster_s_runs_are_left_to_it_unless_it_is_gone_or_they_are_stolen(home, toy):
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen()
        address = f"127.0.0.1:{server.getsockname()[1]}"
        _, runs = submitted(home, toy, 1, session="two", address=address)
        refresh(home, HERE, set())
        task_states(home)
        assert open_record(runs[0]) is not None
    task_states(home)  # nobody listens there any more
    assert open_record(runs[0]) is None


def test_another_cluster_s_runs_can_be_stolen(home, toy):
    _, runs = submitted(home, toy, 1, session="two", local=True, address="127.0.0.1:2")
    refresh(home, HERE, set())
    assert open_record(runs[0]) is not None
    refresh(home, HERE, set(), steal=True)
    assert open_record(runs[0]) is None


def test_a_cluster_that_was_started_anew_has_nothing_of_the_old_one(home, toy):
    _, runs = submitted(home, toy, 1, session="earlier")
    refresh(home, HERE, set())
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


def test_a_cluster_that_is_not_there_is_named_at_once(home, toy):
    with pytest.raises(SchedulerError, match=r"no Ray cluster answers at 127.0.0.1:1:") as error:
        sweep(home, [toy()], on="ray", cluster=("cluster.address=127.0.0.1:1",))
    assert "ray start --head" in error.value.fix


def test_a_ray_of_our_own_cannot_be_left(home, toy, monkeypatch):
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    with pytest.raises(SpecError, match="so it cannot detach") as error:
        sweep(home, [toy()], on="ray", detach=True)
    assert error.value.where == "--detach" and "RAY_ADDRESS" in error.value.fix


def test_slurm_is_not_asked_about_what_ray_has(home, toy):
    submitted(home, toy, 1)
    assert open_submissions(home, "slurm") == [] and len(open_submissions(home, "ray")) == 1
