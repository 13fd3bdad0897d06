"""The batch script of a submission, written by submitit's SLURM executor; our own command is what it runs.

submitit's own way back (a pickle that is named after the job's number, and moved into place after sbatch has answered)
is not used: a submitter that is killed between the two leaves jobs that cannot start. Our task reads submission.json,
which is there before sbatch is called. Nor is its judgement of time limits, which takes every preemption of a job of
ten minutes or less for a time limit (see `task`).
"""

from __future__ import annotations

import shlex
import sys
from collections.abc import Mapping
from typing import Any

from plat.dispatch.slurm.profile import Profile
from plat.runner.inherited import DROPPED
from plat.store.submissions import Submission
from plat.trainer.resources import Resources

SIGNAL = "USR2"  # sent ahead of a time limit; NCCL catches USR1


def script_text(
    submission: Submission, comment: str, profile: Profile, needed: Resources, tasks: int, parallel: int
) -> str:
    """The script of an array of `tasks` tasks, of which at most `parallel` run at once (0: as the site allows)."""
    from submitit.slurm.slurm import SlurmExecutor

    class Executor(SlurmExecutor):
        @classmethod
        def affinity(cls) -> int:
            return 2  # the script may be written where srun is not installed

    executor = Executor(folder=submission.root)
    executor.update_parameters(**_parameters(submission, comment, profile, needed, parallel or tasks))
    executor.parameters["map_count"] = tasks
    python = profile.python or shlex.quote(sys.executable)
    command = f"exec {python} -u -m plat.dispatch.slurm.task {shlex.quote(str(submission.root))}"
    return executor._make_submission_file_text(command, submission.name)


def _parameters(
    submission: Submission, comment: str, profile: Profile, needed: Resources, parallel: int
) -> dict[str, Any]:
    """submitit's names for what we ask of sbatch; what is not asked for is left to the site."""
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
        "setup": [
            f"trap '' {SIGNAL}",
            f"unset {' '.join(DROPPED)}",
            *modules,
            *export,
            *profile.setup,
        ],  # until the task listens, it is no failure
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
