"""The pieces of --on slurm that need no SLURM: states, times, answers, array expressions, packing, the batch script."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st
from toy_runs import toy_run

from plat.dispatch.setting import OVER, PENDING, RUNNING, UNKNOWN
from plat.dispatch.slurm.commands import failure_of_sbatch, indices, is_refusal, minutes_of, number_of_job, task_state
from plat.dispatch.slurm.profile import Profile
from plat.dispatch.slurm.run_task import PREEMPTED, TIMEOUT, RunTask, Stops, reason_of_stop
from plat.dispatch.slurm.slurm_dispatcher import slurm_chunks
from plat.dispatch.slurm.submission import new_executor, parameters
from plat.store.coordination.submissions import Submission, new_submission
from plat.store.home import Home
from plat.trainer.resources import Resources


@pytest.mark.parametrize(
    ("text", "phase", "outcome"),
    [
        ("PENDING", PENDING, None), ("REQUEUE_HOLD", PENDING, None), ("RUNNING", RUNNING, None),
        ("COMPLETING", RUNNING, None), ("SUSPENDED", RUNNING, None), ("COMPLETED", OVER, None),
        ("CANCELLED by 1000", OVER, "cancelled"), ("CANCELLED+", OVER, "cancelled"),
        ("TIMEOUT", OVER, "failed:timeout"), ("NODE_FAIL", OVER, "failed:node"), ("OUT_OF_MEMORY", OVER, "failed:oom"),
        ("PREEMPTED", OVER, "failed:preempted"), ("HIBERNATING", UNKNOWN, None), ("", UNKNOWN, None),
    ],
)  # fmt: skip
def test_a_state_that_is_not_known_is_unknown_never_over(text, phase, outcome):
    state = task_state(text)
    assert (state.phase, state.outcome) == (phase, outcome)


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        ("N/A", [0]), ("", [0]), ("7", [7]), ("[4-7%2]", [4, 5, 6, 7]), ("4-7%2", [4, 5, 6, 7]), ("[1%1]", [1]),
        ("0-8:4", [0, 4, 8]), ("[1,3-4,9]%3", [1, 3, 4, 9]),
    ],
)  # fmt: skip
def test_array_expressions(text, numbers):
    assert indices(text) == numbers


@given(st.sets(st.integers(0, 2000), min_size=1), st.integers(1, 50))
def test_every_array_expression_is_read_back(numbers, parallel):
    spans = []
    for number in sorted(numbers):
        if spans and number == spans[-1][1] + 1:
            spans[-1][1] = number
        else:
            spans.append([number, number])
    text = ",".join(str(a) if a == b else f"{a}-{b}" for a, b in spans)
    assert indices(f"[{text}%{parallel}]") == sorted(numbers)


@pytest.mark.parametrize("text", ["1,...", "a-b", "1-", "[1-3", "none"])
def test_what_is_no_array_expression_is_refused_or_read_whole(text):
    if text == "[1-3":
        assert indices(text) == [1, 2, 3]
        return
    with pytest.raises(ValueError):
        indices(text)


def test_a_thousand_runs_of_one_class_are_one_array_and_ten_thousand_at_most_three():
    runs = [toy_run(seed=seed) for seed in range(1000)]
    made = slurm_chunks(runs, Profile(), 1001, lambda run: None)
    assert [len(chunk.tasks) for chunk in made] == [1000]
    short = slurm_chunks(runs, Profile(), 1001, lambda run: 60.0)
    assert [len(chunk.tasks) for chunk in short] == [100] and len(short[0].tasks[0]) == 10
    assert [run for task in short[0].tasks for run in task] == runs
    many = slurm_chunks([runs[0]] * 10_000, Profile(), 1001, lambda run: None)
    assert len(many) <= 3 and max(len(chunk.tasks) for chunk in many) <= 1001


def test_runs_that_ask_for_different_things_are_different_arrays():
    plain, gpu = toy_run(seed=0), toy_run(seed=1, gpus=1)
    made = slurm_chunks([plain, gpu, plain], Profile(runs_per_task=5), 1001, lambda run: None)
    assert [(chunk.needed.gpus, len(chunk.tasks[0])) for chunk in made] == [(0, 2), (1, 1)]


def script(tmp_path, monkeypatch, profile, needed=None, tasks=3, minutes=90, parallel=0):
    """Submit with submitit to an sbatch that only takes the script; return the submission and the script's text."""
    for name, text in {"sbatch": "echo Submitted batch job 7", "srun": "exit 1"}.items():
        (tmp_path / name).write_text(f"#!/bin/sh\n{text}\n")
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    submission = new_submission(Home(tmp_path / "a home"))
    executor = new_executor(submission.root, profile)
    needed = needed or Resources()
    executor.update_parameters(**parameters(submission, "a comment", profile, needed, minutes, tasks, parallel))
    executor.submit_array([RunTask(str(submission.root), number) for number in range(tasks)])
    return submission, next(submission.root.glob("7*_submission.sh")).read_text()


def test_the_script_asks_for_what_the_profile_says(tmp_path, monkeypatch):
    profile = Profile(
        slurm_account="lab",
        modules=("a b",),
        environment={"X": "a'b"},
        slurm_setup=("echo hello",),
        slurm_additional_parameters={"mail-type": "FAIL"},
        container="apptainer exec plat.sif",
        runs_at_once=4,
        further={"slurm_nodelist": "n[1-3]"},
    )
    needed = Resources(threads=2, gpus=1, memory_mb=2000, partition="gpu")
    submission, text = script(tmp_path, monkeypatch, profile, needed, parallel=2)
    asked = {line.removeprefix("#SBATCH --") for line in text.splitlines() if line.startswith("#SBATCH")}
    assert asked >= {
        "array=0-2%2", "account=lab", "partition=gpu", "time=90", "mem=2000M", "cpus-per-task=8", "gpus-per-node=4",
        "requeue", "signal=B:USR2@120", "mail-type=FAIL", f"job-name={submission.name}", "comment='a comment'",
        "nodelist='n[1-3]'",
    }  # fmt: skip
    assert "module load 'a b'" in text and "echo hello" in text
    export = next(line for line in text.splitlines() if line.startswith("export X"))
    assert subprocess.run(["bash", "-c", f'{export}; echo "$X"'], capture_output=True, text=True).stdout == "a'b\n"
    command = text.strip().splitlines()[-1]
    assert command.startswith(f"exec apptainer exec plat.sif {sys.executable} -P -u -m submitit")
    assert shlex.split(command)[-1] == str(submission.root)
    assert [path.name for path in sorted(submission.root.glob("*.pkl"))] == [f"7_{n}_submitted.pkl" for n in range(3)]


def test_what_is_left_to_the_site_is_not_asked_for(tmp_path, monkeypatch):
    _, text = script(tmp_path, monkeypatch, Profile(), tasks=1, minutes=0)
    assert not any(f"--{name}" in text for name in ("array", "partition", "mem", "gpus", "account", "qos"))
    assert "--time=0" in text and "task-0.txt" in text


@pytest.mark.parametrize(
    ("text", "minutes"),
    [
        ("UNLIMITED", 0), ("1-00:00:00", 1440), ("02:30:00", 150), ("30:00", 30), ("00:00:30", 1), ("", 0), ("45", 45),
        ("1:30", 2), ("1-12", 2160), ("1-02:30", 1590), ("0-00:10:01", 11), ("90:00:00", 5400), ("1:2:3:4", 0),
    ],
)  # fmt: skip
def test_minutes_as_slurm_writes_them(text, minutes):
    assert minutes_of(text) == minutes


def test_a_submission_is_named_like_no_other(tmp_path):
    home = Home(tmp_path / "home")
    names = {new_submission(home).name for _ in range(50)}
    assert len(names) == 50 and isinstance(new_submission(home), Submission)


@pytest.mark.parametrize(
    ("seconds", "minutes", "times", "why"),
    [
        (5, 10, None, PREEMPTED),
        (410, 10, None, PREEMPTED),  # the signal is to come 120 s ahead of the limit, and may come 60 s earlier
        (420, 10, None, TIMEOUT),
        (5, 1, None, TIMEOUT),  # a limit that is shorter than the time ahead: every stop may be its
        (10_000, 0, None, PREEMPTED),  # no limit
        (420, 600, (1000, 1600), TIMEOUT),  # SLURM's own word counts more than what was asked for
        (420, 10, (1000, 37_000), PREEMPTED),
    ],
)
def test_a_stop_near_the_time_limit_is_a_timeout_any_other_a_preemption(monkeypatch, seconds, minutes, times, why):
    for name, value in zip(("START", "END"), times or ("", ""), strict=True):
        monkeypatch.setenv(f"SLURM_JOB_{name}_TIME", str(value))
    assert reason_of_stop(seconds, {"minutes": minutes, "signal_before": 120}) == why


def test_a_run_is_stuck_when_three_timeouts_brought_it_no_step_further(tmp_path):
    stops = Stops(tmp_path / "stops-0.jsonl")
    for step in (3, 7, 7):
        stops.note(TIMEOUT, {"slow": step, "stuck": 2})
        stops.note(PREEMPTED, {"slow": step, "stuck": 2, "preempted": 1})
    assert stops.is_stuck("stuck") and not stops.is_stuck("slow") and not stops.is_stuck("preempted")
    with open(tmp_path / "stops-0.jsonl", "a") as file:
        file.write('{"why": "timeout", "st')  # the line that a kill has cut off
    assert stops.is_stuck("stuck") and not stops.is_stuck("slow")


@pytest.mark.parametrize(
    ("said", "refused"),
    [
        ("Batch job submission failed: Invalid account or account/partition combination specified", True),
        ("Batch job submission failed: Memory specification can not be satisfied", True),
        ("Batch job submission failed: Requested time limit is invalid (missing or exceeds some limit)", True),
        ("error: AssocMaxSubmitJobLimit error: Batch job submission failed: Job violates accounting/QOS policy", True),
        ("unrecognized option '--gpus-per-nod'", True),
        ("error: Batch job submission failed: Socket timed out on send/recv operation", False),
        ("error: Batch job submission failed: Unable to contact slurm controller (connect failure)", False),
        ("error: Batch job submission failed: Zero Bytes were transmitted or received", False),
        ("error: Batch job submission failed: Protocol authentication error", False),
        ("", False),
    ],
)
def test_a_job_is_refused_unless_its_way_to_slurm_is_in_doubt(said, refused):
    assert is_refusal(said) == refused


def test_an_sbatch_that_did_not_fail_itself_is_never_refused():
    """Its answer cannot be read, it was killed, or a file could not be written after it had answered."""
    said = "Invalid account"
    assert failure_of_sbatch(said, "", has_failed=True).certain
    assert not failure_of_sbatch(said, "", has_failed=False).certain


@pytest.mark.parametrize(
    ("said", "number"),
    [
        ("Submitted batch job 101\n", "101"),
        (b"Submitted batch job 101 on cluster lab\n", "101"),
        ("Welcome! At most job 5 at once.\nSubmitted batch job 101\nSee job 7 too\n", "101"),
    ],
)
def test_the_number_of_a_job_is_in_the_sentence_of_sbatch(said, number):
    assert number_of_job(said) == number


@pytest.mark.parametrize("said", ["", "job 5", "101", "Submitted batch job 1\nSubmitted batch job 2\n"])
def test_an_answer_without_one_number_has_none(said):
    with pytest.raises(ValueError, match="Submitted batch job NUMBER"):
        number_of_job(said)
