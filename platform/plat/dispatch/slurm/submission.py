"""Hand one chunk of runs to SLURM as a job array, exactly once (see `plat.dispatch.submitting`).

The batch script is written with submitit's SLURM executor; it runs plat's own command.

`plat.dispatch.slurm.slurm_refresh` completes a submission whose submitter was killed or got no answer of sbatch.
"""

from __future__ import annotations

import shlex
import sys
from collections.abc import Mapping
from typing import Any

from plat.dispatch.packing import Chunk
from plat.dispatch.slurm.commands import Slurm
from plat.dispatch.slurm.profile import Profile
from plat.dispatch.submitting import hand_over
from plat.processes.own_process import DROPPED
from plat.store.coordination.submissions import Record, Submission
from plat.store.disk.durable import write
from plat.store.home import Home
from plat.trainer.resources import Resources

SCHEDULER = "slurm"
# submitit's own recovery is not used. It reads a pickle that is moved into place after sbatch has answered, so a
# submitter that is killed in between leaves jobs that cannot start. Our task reads submission.json, which exists before
# sbatch is called. submitit also takes every preemption of a job of at most ten minutes for a time limit (see `stops`).
SIGNAL = "USR2"  # sent ahead of a time limit; NCCL catches USR1


def submit(home: Home, slurm: Slurm, profile: Profile, chunk: Chunk, parallel: int) -> dict[str, Record]:
    """Submit the runs of a chunk that no other submission has; return their new records by run id.

    Returns {} if other submissions have all runs. Raises SchedulerError if sbatch fails (see `hand_over`).
    """

    def describe(submission: Submission, tasks: list[list[str]], comment: str) -> Mapping[str, Any]:
        script = script_text(submission, comment, profile, chunk.needed, len(tasks), parallel)
        write(submission.script, script.encode(), sync=False)
        return {
            "slots": profile.runs_at_once,
            "minutes": chunk.needed.minutes,
            "signal_before": profile.signal_before,
            "accept_within": profile.accept_within,
            "command_timeout": profile.command_timeout,
        }

    def call(submission: Submission, tasks: list[list[str]], lock: int) -> str:
        return slurm.submit(str(submission.script), [lock])

    place = {"scheduler": SCHEDULER, "cluster": slurm.site().cluster}
    return hand_over(home, place, chunk.tasks, describe, call)


def script_text(
    submission: Submission, comment: str, profile: Profile, needed: Resources, tasks: int, parallel: int
) -> str:
    """Return the script of an array of `tasks` tasks; at most `parallel` run at once (0: plat sets no limit)."""
    from submitit.slurm.slurm import SlurmExecutor

    class Executor(SlurmExecutor):
        @classmethod
        def affinity(cls) -> int:
            return 2  # the script may be written where srun is not installed

    executor = Executor(folder=submission.root)
    executor.update_parameters(**_parameters(submission, comment, profile, needed, parallel or tasks))
    executor.parameters["map_count"] = tasks
    python = profile.python or shlex.quote(sys.executable)
    command = f"exec {python} -P -u -m plat.dispatch.slurm.slurm_task {shlex.quote(str(submission.root))}"
    return executor._make_submission_file_text(command, submission.name)


def _parameters(
    submission: Submission, comment: str, profile: Profile, needed: Resources, parallel: int
) -> dict[str, Any]:
    """Return the settings of sbatch under submitit's names; settings that are not requested are left to the site."""
    asked: Mapping[str, Any] = {
        "partition": needed.partition,
        "account": profile.account,
        "qos": profile.qos,
        "constraint": profile.constraint,
        "gres": profile.gres,
        "exclude": profile.exclude,
        "mem": f"{needed.memory_mb}M" if needed.memory_mb else "",
        "gpus_per_node": 0 if profile.gres else needed.gpus * profile.runs_at_once,
    }
    export = [f"export {name}={shlex.quote(value)}" for name, value in profile.environment.items()]
    modules = [f"module load {shlex.quote(name)}" for name in profile.modules]
    return {
        **{name: value for name, value in asked.items() if value},
        "job_name": submission.name,
        "comment": comment,
        "time": needed.minutes or None,
        "nodes": needed.nodes,
        "cpus_per_task": max(1, needed.threads) * profile.runs_at_once,
        "array_parallelism": parallel,
        # The trap: a signal before the task handles it is no failure.
        "setup": [f"trap '' {SIGNAL}", f"unset {' '.join(DROPPED)}", *modules, *export, *profile.setup],
        "use_srun": False,  # the job's own shell becomes the task: it gets the signals of the job
        "stderr_to_stdout": True,
        "wckey": None,
        "additional_parameters": {
            "signal": f"B:{SIGNAL}@{profile.signal_before}",
            "requeue": True,
            "output": str(submission.root / "task-%a.txt"),
            **profile.options,
        },
    }
