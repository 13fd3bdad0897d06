"""Hand one chunk of runs to SLURM with submitit, as a job array, exactly once (see `plat.dispatch.submitting`).

submitit writes the batch script, calls sbatch, and reads the job's number; in the job it loads a `RunTask`, catches the
signal ahead of a time limit or preemption, and puts the job back into the queue.

submitit moves the pickles of the tasks into place after sbatch has answered. A submitter that is killed in between
leaves tasks that wait a minute for their pickle. `complete` writes the missing pickles.
"""

from __future__ import annotations

import contextlib
import io
import math
import os
import shlex
import signal
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from subprocess import CalledProcessError
from typing import TYPE_CHECKING, Any

from plat.dispatch.slurm.commands import Slurm, failure_of_sbatch, no_answer, number_of_job
from plat.dispatch.slurm.profile import Profile
from plat.dispatch.slurm.run_task import SIGNAL, RunTask
from plat.dispatch.submitting import Chunk, hand_over
from plat.processes.own_process import DROPPED
from plat.store.coordination.submissions import Record, Submission
from plat.store.home import Home
from plat.trainer.resources import Resources

if TYPE_CHECKING:
    from submitit import AutoExecutor, Job

SCHEDULER = "slurm"
NO_LIMIT = 10**6  # time limits that submitit lets a job meet: plat decides when to give up (`run_task.Stops`)
# Variables with which sbatch would overrule plat's options, or by which a job would take itself for the array task in
# which the command was given.
_OVERRULING = ("JOB_NAME", "ARRAY_INX", "OUTPUT", "ERROR", "OPEN_MODE", "SIGNAL", "TIMELIMIT", "REQUEUE", "NO_REQUEUE")
_OF_A_TASK = ("ARRAY_JOB_ID", "ARRAY_TASK_ID", "ARRAY_TASK_COUNT", "ARRAY_TASK_MAX", "ARRAY_TASK_MIN", "RESTART_COUNT")
NOT_FOR_SBATCH = tuple(f"SBATCH_{name}" for name in _OVERRULING) + tuple(f"SLURM_{name}" for name in _OF_A_TASK)
OF_THE_SUBMITTER = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)


def submit(home: Home, slurm: Slurm, profile: Profile, chunk: Chunk, parallel: int) -> dict[str, Record]:
    """Submit the runs of a chunk that no other submission has; return their new records by run id.

    Returns {} if other submissions have all runs. Raises SchedulerError if sbatch fails (see `hand_over`).
    """
    minutes = chunk.needed.minutes or slurm.default_minutes(chunk.needed.partition)
    comments: dict[Submission, str] = {}

    def describe(submission: Submission, tasks: list[list[str]], comment: str) -> Mapping[str, Any]:
        comments[submission] = comment
        return {
            "slots": profile.runs_at_once,
            "minutes": minutes,
            "signal_before": profile.slurm_signal_delay_s,
            "accept_within": profile.accept_within,
            "command_timeout": profile.command_timeout,
            "array": len(tasks) > 1,
        }

    def call(submission: Submission, tasks: list[list[str]], lock: int) -> str:
        executor = new_executor(submission.root, profile)
        wanted = parameters(submission, comments[submission], profile, chunk.needed, minutes, len(tasks), parallel)
        executor.update_parameters(**wanted)
        # submitit's own is refused on sites with wckeys, and update drops a None
        executor.parameters["wckey"] = profile.further.get("slurm_wckey")
        run_tasks = [RunTask(str(submission.root), number) for number in range(len(tasks))]
        jobs = _answer_of_sbatch(lambda: executor.submit_array(run_tasks), profile.command_timeout, submission)
        return jobs[0].job_id.partition("_")[0]

    place = {"scheduler": SCHEDULER, "cluster": slurm.site().cluster}
    return hand_over(home, place, chunk.tasks, describe, call)


def new_executor(folder: Path, profile: Profile) -> AutoExecutor:
    """Return submitit's executor for SLURM. The job's own shell becomes the task (`exec`), so it gets the signals."""
    from submitit import AutoExecutor, SlurmExecutor

    # submitit's own takes any "job 5" of a site's messages; arrays use this class itself, so a subclass does not reach.
    SlurmExecutor._get_job_id_from_submission_command = staticmethod(number_of_job)  # type: ignore
    python = profile.slurm_python or shlex.quote(sys.executable)
    return AutoExecutor(
        folder=folder,
        cluster=SCHEDULER,
        slurm_python=f"exec {profile.container} {python} -P".replace("  ", " "),
        slurm_max_num_timeout=NO_LIMIT,
    )


def parameters(
    submission: Submission,
    comment: str,
    profile: Profile,
    needed: Resources,
    minutes: int,
    tasks: int,
    parallel: int,
) -> dict[str, Any]:
    """Return submitit's parameters of a submission; settings that are not requested are left to the site.

    minutes   the time limit; 0 for none
    parallel  how many tasks may run at once; 0: plat sets no limit
    """
    gpus = 0 if profile.slurm_gres else math.ceil(needed.gpus * profile.runs_at_once)
    asked: Mapping[str, Any] = {
        "slurm_partition": needed.partition,
        "slurm_account": profile.slurm_account,
        "slurm_qos": profile.slurm_qos,
        "slurm_constraint": profile.slurm_constraint,
        "slurm_gres": profile.slurm_gres,
        "slurm_exclude": profile.slurm_exclude,
        "slurm_mem": f"{needed.memory_mb}M" if needed.memory_mb else "",
        "gpus_per_node": gpus,
    }
    export = [f"export {name}={shlex.quote(value)}" for name, value in profile.environment.items()]
    modules = [f"module load {shlex.quote(name)}" for name in profile.modules]
    return {
        **{name: value for name, value in asked.items() if value},
        **profile.further,
        "name": submission.name,
        "slurm_comment": comment,
        "slurm_time": minutes,
        "nodes": needed.nodes,
        "cpus_per_task": max(1, needed.threads) * profile.runs_at_once,
        "slurm_array_parallelism": parallel or tasks,
        # The trap: a signal before the task handles it is no failure.
        "slurm_setup": [f"trap '' {SIGNAL}", f"unset {' '.join(DROPPED)}", *modules, *export, *profile.slurm_setup],
        "slurm_use_srun": False,
        "stderr_to_stdout": True,
        "slurm_additional_parameters": {
            "signal": f"B:{SIGNAL}@{profile.slurm_signal_delay_s}",  # to the shell, which submitit cannot ask for
            "requeue": True,
            "output": str(submission.root / ("task-%a.txt" if tasks > 1 else "task-0.txt")),
            **profile.slurm_additional_parameters,
        },
    }


def complete(submission: Submission) -> int:
    """Write the pickles that a killed submitter has not moved into place; return how many were missing.

    Call it when the job's number is known. A pickle that is there, or of a task that is over, is left alone.
    """
    from submitit.helpers import DelayedSubmission

    missing, minutes = 0, int(submission.facts().get("minutes") or 0)
    for number in range(len(submission.tasks())):
        path = pickle_of(submission, number)
        if path is None or path.exists() or submission.is_over(number):
            continue
        delayed = DelayedSubmission(RunTask(str(submission.root), number))
        delayed.set_timeout(minutes, NO_LIMIT)
        scratch = path.with_name(f".{path.name}-{os.getpid()}")
        delayed.dump(scratch)
        with contextlib.suppress(FileExistsError):  # the submitter lives, and was first
            os.link(scratch, path)
            missing += 1
        scratch.unlink()
    return missing


def pickle_of(submission: Submission, task: int) -> Path | None:
    """Return the path at which submitit's task expects its pickle; None while the job's number is unknown."""
    name = task_name(submission, task)
    return None if name is None else _job_class()(folder=submission.root, job_id=name).paths.submitted_pickle


def task_name(submission: Submission, task: int) -> str | None:
    """Return SLURM's name of a task, "123_4", or "123" of a job that is not an array; None while it is unknown."""
    number = submission.job_id()
    return number if number is None or not submission.is_array() else f"{number}_{task}"


def _job_class() -> type[Job[Any]]:
    from submitit import SlurmJob

    return SlurmJob


def _answer_of_sbatch(
    call: Callable[[], Sequence[Job[Any]]], timeout: float, submission: Submission
) -> Sequence[Job[Any]]:
    """Return the jobs that submitit submits. Raises SchedulerError if sbatch fails, or takes more than `timeout` s.

    submitit sets no time limit, so the call runs in its own thread, which continues after `timeout`. sbatch inherits
    the signals that the thread blocks. Ctrl-C therefore does not interrupt it. The variables NOT_FOR_SBATCH are absent.
    """
    from submitit.core.utils import FailedJobError

    answer: list[Sequence[Job[Any]]] = []
    errors: list[Exception] = []

    def submit_array() -> None:
        signal.pthread_sigmask(signal.SIG_BLOCK, OF_THE_SUBMITTER)
        try:
            answer.append(call())
        except Exception as error:
            errors.append(error)

    thread = threading.Thread(target=submit_array, daemon=True)
    kept = {name: os.environ.pop(name) for name in NOT_FOR_SBATCH if name in os.environ}
    try:
        with contextlib.redirect_stderr(io.StringIO()):  # submitit prints what sbatch says
            thread.start()
            thread.join(timeout)
    finally:
        os.environ.update(kept)
    if answer:
        return answer[0]
    if not errors:
        raise no_answer("sbatch", timeout, str(submission.root))
    cause = errors[0].__cause__ if isinstance(errors[0], FailedJobError) else None
    has_failed = isinstance(cause, CalledProcessError) and 0 < cause.returncode < 128  # no signal has ended it
    raise failure_of_sbatch(str(errors[0]), str(submission.root), has_failed=has_failed) from errors[0]
