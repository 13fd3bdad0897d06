"""GPUs of this machine in whole and in shares: `cluster.gpus`."""

from __future__ import annotations

import json
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from toy_runs import toy_run

from plat.dispatch.gpu_setting import gpus_per_run
from plat.dispatch.local import devices
from plat.dispatch.local.devices import Devices
from plat.dispatch.local.local_dispatcher import LocalDispatcher
from plat.dispatch.local.local_settings import read_gpus
from plat.dispatch.local.schedule import LocalJob, make_jobs
from plat.errors import SpecError
from plat.store.home import Home

Verb = Callable[..., tuple[int, str, str]]


@pytest.mark.parametrize(
    ("text", "gpus"),
    [("2", 2), ("0", 0), ("1.0", 1), ("0.25", 0.25), ("2.5e-1", 0.25), ("0.57", 0.57), ("0.3333333333", 0.3333)],
)
def test_a_whole_number_or_a_share(text: str, gpus: float) -> None:
    assert gpus_per_run(text, "here") == gpus
    assert read_gpus([f"cluster.gpus={text}"]) == gpus


@pytest.mark.parametrize(
    "text", ["1.5", "-1", "-0.5", "nan", ".nan", ".inf", "inf", "yes", "true", "", "1/3", "0.00001", "1e12", "[1]"]
)
def test_anything_else_is_refused_with_its_place(text: str) -> None:
    with pytest.raises(SpecError, match="a share of one GPU such as") as error:
        LocalDispatcher.check_settings([f"cluster.gpus={text}"], False)
    assert f"cluster.gpus={text}" in error.value.where and "two runs share one" in error.value.fix


@pytest.mark.parametrize("text", ["cluster=lab", "cluster.threads=2", "cluster.gpu=1", "cluster.gpus"])
def test_another_setting_is_refused_and_the_one_of_this_machine_is_named(text: str) -> None:
    with pytest.raises(SpecError) as error:
        LocalDispatcher.check_settings([text], False)
    assert "cluster.gpus=" in error.value.fix


@pytest.fixture
def two(monkeypatch: pytest.MonkeyPatch) -> Callable[[list[LocalJob]], Devices]:
    """Return the function that gives the devices of a machine with the GPUs 4 and 5, after a look at the jobs."""
    monkeypatch.setattr(devices, "visible_gpus", lambda: ["4", "5"])

    def made(jobs: list[LocalJob]) -> Devices:
        machine = Devices()
        machine.check(jobs)
        return machine

    return made


def jobs_of(*shares: float) -> list[LocalJob]:
    jobs = make_jobs([toy_run(seed=seed) for seed in range(len(shares))])
    for job, share in zip(jobs, shares, strict=True):
        job.gpus = share
    return jobs


def taken(machine: Devices, job: LocalJob) -> str:
    assert machine.fits(job)
    return machine.take(job)["CUDA_VISIBLE_DEVICES"]


def test_a_share_is_of_the_fullest_gpu_that_has_room_for_it(two: Callable[[list[LocalJob]], Devices]) -> None:
    half, quarter, large, whole, small, none = jobs = jobs_of(0.5, 0.25, 0.6, 1, 0.25, 0)
    machine = two(jobs)
    assert [taken(machine, job) for job in (half, quarter)] == ["4", "4"]
    assert taken(machine, large) == "5", "0.25 is free on the other"
    assert not machine.fits(whole) and taken(machine, none) == ""
    assert taken(machine, small) == "4", "the one with the least free share"
    machine.give_back(large)
    machine.give_back(large)  # once only
    assert taken(machine, whole) == "5" and not machine.fits(large)
    for job in jobs:
        machine.give_back(job)
    assert machine._free == {"4": devices.PARTS, "5": devices.PARTS}


def test_thirds_fit_three_times_and_a_share_is_never_of_two_gpus(two: Callable[[list[LocalJob]], Devices]) -> None:
    third = gpus_per_run("0.33333333", "")
    jobs = jobs_of(*[third] * 7)
    machine = two(jobs)
    assert [taken(machine, job) for job in jobs[:6]] == ["4"] * 3 + ["5"] * 3
    assert not machine.fits(jobs[6])


@given(st.lists(st.tuples(st.sampled_from(["0.1", "0.3", "0.7", "0.3333", "1", "2", "0"]), st.booleans()), max_size=30))
def test_no_gpu_is_given_out_twice_and_everything_comes_back(asked: list[tuple[str, bool]]) -> None:
    jobs = jobs_of(*[gpus_per_run(share, "") for share, _ in asked])
    machine = Devices()
    machine._free = {"a": devices.PARTS, "b": devices.PARTS, "c": devices.PARTS}
    held: list[LocalJob] = []
    for job, (_, ends) in zip(jobs, asked, strict=True):
        if machine.fits(job):
            machine.take(job)
            held.append(job)
        for gpu in "abc":
            assert sum(Fraction(str(min(1, each.gpus))) for each in held if gpu in each.devices) <= 1
        if ends and held:
            machine.give_back(held.pop(0))
    for job in held:
        machine.give_back(job)
    assert set(machine._free.values()) == {devices.PARTS}


def test_the_setting_replaces_what_trainers_state_and_a_preparation_has_the_same() -> None:
    runs = [toy_run(gpus=1, recipe="a"), toy_run(gpus=0, seed=1)]
    assert [job.gpus for job in make_jobs(runs)] == [1, 1, 0]
    assert [job.gpus for job in make_jobs(runs, gpus_of_each=0.5)] == [0.5, 0.5, 0.5]


SCRIPT = """
import json, os, time
begun = time.time()
time.sleep(1.5)
print(json.dumps({"step": 1, "begun": begun, "ended": time.time()}))
print("GPUS", os.environ["CUDA_VISIBLE_DEVICES"])
"""


@pytest.mark.parametrize(("setting", "is_shared"), [(["cluster.gpus=0.5"], True), ([], False)])
def test_two_runs_are_on_one_gpu_at_the_same_time_only_if_they_share_it(
    plat: Verb, project: Path, monkeypatch: pytest.MonkeyPatch, setting: list[str], is_shared: bool
) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0")
    (project / "train.py").write_text(SCRIPT)
    path = project / "mine.yaml"
    base = "{trainer: script, script.command: python train.py, script.gpus: 1}"
    path.write_text(f"title: x\nbase: {base}\nmatrix: {{seed: [0, 1]}}\n")
    code, _, error = plat("sweep", path, *setting, "--jobs", 4)
    assert code == 0, error
    home = Home(project / "plat-home")
    logs = [home.run(run_id).attempt(1).log.read_text() for run_id in home.run_ids()]
    assert len(logs) == 2 and all("GPUS 0\n" in log for log in logs)
    first, second = sorted(
        (values["begun"], values["ended"])
        for log in logs
        for values in [json.loads(next(line for line in log.splitlines() if line.startswith("{")))]
    )
    assert (second[0] < first[1]) == is_shared
