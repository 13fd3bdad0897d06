"""`plat tune --on ray`: Tune's schedulers stop trials, on a private Ray and on a cluster (marked `cluster`).

Seven minutes in all: most are marked `chaos` too, and run by hand.
"""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest
from clusters import PYTHONPATH
from ray_cluster import ENVIRONMENT, on_ray
from sweep_processes import wait_for
from toy_runs import comparable, no_step_twice

from plat.dispatch.driver import sweep
from plat.search.search_file import read_searches
from plat.search.study import Study
from plat.store.coordination.submissions import Submission
from plat.store.home import Home
from plat.store.run_directory.run_files import read_outcome
from plat.store.run_directory.state import run_state

pytestmark = pytest.mark.cluster
PATIENCE = 300  # seconds
SEARCH = """
title: Slopes
base: {trainer: "plat_slope:Slope", sleep: 0.1, train.iterations: 16}
space: {slope: [0.01, 0.02, 0.03, 0.04, 0.05, 0.06]}
objectives: [{maximize: success}]
sampler: {name: grid, seed: 3}
pruner: {name: asha, min_steps: 4, reduction: 2}
seeds: [0, 1]
confirm: [7]
"""
PRIVATE = ("cluster.refresh=0.3", "cluster.address=local")


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name, value in {
        **ENVIRONMENT,
        "PYTHONPATH": PYTHONPATH,
        "PLAT_ALLOW_IMPORT": "1",
    }.items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    path = tmp_path / "slopes.yaml"
    path.write_text(SEARCH)
    return path


@pytest.fixture(params=["private", pytest.param("cluster", marks=pytest.mark.chaos)])
def place(request: pytest.FixtureRequest) -> tuple[str, ...]:
    return PRIVATE if request.param == "private" else on_ray(request.getfixturevalue("ray"))


class Tune:
    """A `plat tune` of a file in a process of its own; its output is in `text` when it has ended."""

    def __init__(self, file: Path, home: Home, *arguments: str, jobs: int = 2) -> None:
        command = [sys.executable, "-m", "plat", "tune", str(file), "--on", "ray", "--jobs", str(jobs)]
        command += ["--home", str(home.root), *arguments]
        self.process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, cwd=file.parent
        )
        self.text = ""

    def end(self, code: int = 0) -> str:
        self.text = self.process.communicate(timeout=PATIENCE)[0]
        assert self.process.returncode == code, self.text
        assert "Traceback" not in self.text
        return self.text

    def kill(self) -> None:
        self.process.kill()
        self.process.communicate(timeout=PATIENCE)


def trials(file: Path, home: Home, *overrides: str):
    (search,) = read_searches(file, overrides)
    return search, Study(home, search).trials()


def begun(home: Home, runs: int, step: int = 3):
    """Wait until so many runs have got to a step."""
    wait_for(lambda: sum((run_state(run).step or 0) >= step for run in home.all_runs()) >= runs, timeout=PATIENCE)


def drivers(home: Home) -> list[psutil.Process]:
    """The processes that hold the Tuner of a search of this home (not the shells that started them)."""
    found = []
    for process in psutil.process_iter(["cmdline"]):
        line = process.info["cmdline"] or []
        if "plat.search.ray.tuned_search" in line:
            is_private = "--private" in line and process.cwd() == str(home.root.parent)
            if is_private or any(str(home.root) in word for word in line):
                found.append(process)
    return found


def check_runs(home: Home, search, stored, calm: Home) -> None:
    """No run was finished twice, none has lost a step, and each has the values of an undisturbed one."""
    everything = [run for trial in stored for run in search.runs_of(trial.params, search.seeds)]
    done = [run for run in everything if run_state(home.run(run.id)).state == "done"]
    assert sweep(calm.create(), done, 2).counts() == {"done": len(done)}
    for run in done:
        ours, theirs = comparable(home.run(run.id)), comparable(calm.run(run.id))
        assert all(ours[part] == theirs[part] for part in ("metrics", "tables", "checkpoint"))
        ends = [(read_outcome(attempt) or {}).get("outcome") for attempt in home.run(run.id).attempts()]
        assert ends.count("finished") == 1 and no_step_twice(home.run(run.id))


def test_tune_stops_bad_trials_and_the_study_says_so(file, home, place):
    text = Tune(file, home, *place).end()
    search, stored = trials(file, home)
    states = [trial.state.name for trial in stored]
    assert len(stored) == 6 and "PRUNED" in states and set(states) == {"COMPLETE", "PRUNED"}
    assert max(trial.params["slope"] for trial in stored if trial.state.name == "COMPLETE") == 0.06
    spared = 0
    for trial in stored:
        runs = search.runs_of(trial.params, search.seeds)
        if trial.state.name == "PRUNED":
            assert re.match(r"asha: 0\.\d+ at step \d+", trial.user_attrs["plat.reason"])
            newest = max(trial.intermediate_values)
            assert trial.user_attrs["plat.iterations"] == newest - newest // 17 < 32
            spared += run_state(home.run(runs[-1].id)).state != "done"
        else:
            assert all(run_state(home.run(run.id)).state == "done" for run in runs)
            assert len(trial.intermediate_values) == 34
    assert spared and "on fresh seeds" in text
    assert all(len(run.attempts()) <= 1 for run in home.all_runs())
    check_runs(home, search, stored, Home(home.root.parent / "calm"))
    before = list(home.submissions.iterdir())
    Tune(file, home, *place).end()  # nothing is left: no Ray is started
    assert list(home.submissions.iterdir()) == before and trials(file, home)[1] == stored


@pytest.mark.long
def test_a_killed_driver_loses_nothing_and_the_search_is_replayed(file, home, place, tmp_path):
    """The process with the Tuner is killed in the middle; the same command goes on."""
    first = Tune(file, home, *place)
    begun(home, 2)
    [driver] = drivers(home)
    driver.kill()
    first.process.communicate(timeout=PATIENCE)  # it goes on, or says that the driver was lost
    _, asked = trials(file, home)
    second = Tune(file, home, *place)
    second.process.communicate(timeout=PATIENCE)
    assert second.process.returncode in (0, 3)  # 3: it names a run that the kill interrupted and whose trial is over
    Tune(file, home, *place).end()
    search, stored = trials(file, home)
    assert len(stored) == 6 and {trial.state.name for trial in stored} <= {"COMPLETE", "PRUNED"}
    assert [trial.params for trial in stored[: len(asked)]] == [trial.params for trial in asked]
    assert len({trial.params["slope"] for trial in stored}) == 6
    check_runs(home, search, stored, Home(tmp_path / "calm"))


@pytest.mark.chaos
def test_a_killed_command_leaves_the_search_to_the_cluster(file, home, ray, tmp_path):
    """On a cluster the search does not need the command; the next one follows it, and a second one beside it."""
    first = Tune(file, home, *on_ray(ray))
    begun(home, 1)
    first.kill()
    [driver] = drivers(home)
    followers = [Tune(file, home, *on_ray(ray)), Tune(file, home, *on_ray(ray), "confirm=[7]")]
    texts = [follower.end() for follower in followers]
    assert all("on fresh seeds" in text for text in texts)
    assert ["when it has ended, give this command again" in text for text in texts] == [False, True]
    search, stored = trials(file, home)
    assert len(stored) == 6 and not driver.is_running()
    assert all(len(run.attempts()) <= 1 for run in home.all_runs())
    searches = [each for each in home.submissions.iterdir() if "study" in Submission(each).facts()]
    assert len(searches) == 1
    check_runs(home, search, stored, Home(tmp_path / "calm"))


@pytest.mark.chaos
def test_ctrl_c_lets_the_runs_of_a_private_ray_save(file, home, tmp_path):
    first = Tune(file, home, *PRIVATE)
    begun(home, 2)
    first.process.send_signal(signal.SIGINT)
    assert "saving their state" in first.end(130)
    ends = [read_outcome(run.attempts()[-1]) for run in home.all_runs() if run.attempts()]
    assert all(ends) and "interrupted" in [end["outcome"] for end in ends] and not drivers(home)
    Tune(file, home, *PRIVATE).end()
    search, stored = trials(file, home)
    assert len(stored) == 6 and all(trial.state.is_finished() for trial in stored)
    check_runs(home, search, stored, Home(tmp_path / "calm"))


@pytest.mark.long
def test_ctrl_c_leaves_a_search_on_a_cluster_and_cancel_ends_it(file, home, ray):
    file.write_text(file.read_text().replace("sleep: 0.1", "sleep: 0.4"))  # longer than `plat cancel` takes to start
    first = Tune(file, home, *on_ray(ray))
    begun(home, 1)
    first.process.send_signal(signal.SIGINT)
    assert "the search goes on in Ray" in first.end(130) and drivers(home)
    command = [sys.executable, "-m", "plat", "cancel", str(file), "--home", str(home.root)]
    cancelled = subprocess.run(command, cwd=file.parent, capture_output=True, text=True, timeout=PATIENCE)
    assert "asked the search to end" in cancelled.stdout, cancelled.stdout + cancelled.stderr
    wait_for(lambda: not drivers(home), timeout=PATIENCE)
    _, stored = trials(file, home)
    assert any(not trial.state.is_finished() for trial in stored)
    Tune(file, home, *on_ray(ray)).end()
    assert all(trial.state.is_finished() for trial in trials(file, home)[1])


@pytest.mark.chaos
@pytest.mark.parametrize(
    ("pruner", "states"),
    [
        ("{name: median, startup: 2, warmup: 3}", {"COMPLETE", "PRUNED"}),
        ("{name: successive_halving, min_steps: 4}", {"COMPLETE", "PRUNED"}),
        ("none", {"COMPLETE"}),
        ("retrieval", {"COMPLETE"}),
    ],
)
def test_every_pruner_works(file, home, pruner, states):
    file.write_text(re.sub("pruner: .*", f"pruner: {pruner}", SEARCH))
    Tune(file, home, *PRIVATE).end()
    _, stored = trials(file, home)
    assert len(stored) == 6 and {trial.state.name for trial in stored} == states


@pytest.mark.chaos
def test_median_over_runs_that_were_done_before(file, home):
    for pruner, states in (("none", {"COMPLETE"}), ("{name: median, startup: 2, warmup: 2}", {"COMPLETE", "PRUNED"})):
        study = file.with_name(f"slopes{len(states)}.yaml")
        study.write_text(re.sub("pruner: .*", f"pruner: {pruner}", SEARCH))
        Tune(study, home, *PRIVATE).end()
        _, stored = trials(study, home)
        assert len(stored) == 6 and {trial.state.name for trial in stored} == states


@pytest.mark.chaos
def test_several_objectives_need_no_pruner(file, home):
    text = SEARCH.replace("{maximize: success}", "{maximize: success}, {minimize: success, of: best}")
    file.write_text(re.sub("pruner: .*\n", "trials: 3\n", text))
    Tune(file, home, *PRIVATE).end()
    _, stored = trials(file, home)
    assert [trial.state.name for trial in stored] == ["COMPLETE"] * 3 and len(stored[0].values) == 2


def test_a_mistake_that_shows_in_a_run_is_one_message(file, home):
    file.write_text(SEARCH.replace("maximize: success", "maximize: reward"))
    text = Tune(file, home, *PRIVATE).end(2)
    assert "has not logged 'reward'" in text and "slopes.yaml:5" in text and "fix:" in text


@pytest.mark.chaos
def test_a_diverged_trial_fails_and_the_search_goes_on(file, home):
    text = SEARCH.replace("slope: [0.01, 0.02, 0.03, 0.04, 0.05, 0.06]", "diverges: [true, false], slope: [0.05, 0.06]")
    file.write_text(text)
    Tune(file, home, *PRIVATE).end()
    _, stored = trials(file, home)
    ends = {(trial.state.name, trial.params["diverges"]) for trial in stored}
    assert ends <= {("FAIL", True), ("COMPLETE", False), ("PRUNED", False)} and ("FAIL", True) in ends


def test_a_search_that_fits_no_node_is_refused_before_it_is_submitted(file, home):
    text = Tune(file, home, *PRIVATE, "cluster.gpus=1").end(2)
    assert "asks for 1 GPU" in text and not list(home.runs.glob("*/*"))
