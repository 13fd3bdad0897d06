"""Hands one chunk of runs to SLURM as a job array, exactly once (see `plat.dispatch.submitting`).

`plat.dispatch.slurm.refresh` goes on where a submitter was killed, or where sbatch did not answer.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from plat.dispatch.slurm.commands import Slurm
from plat.dispatch.slurm.packing import Chunk
from plat.dispatch.slurm.profile import Profile
from plat.dispatch.slurm.script import script_text
from plat.dispatch.submitting import hand_over
from plat.store.durable import write
from plat.store.home import Home
from plat.store.submissions import Record, Submission

SCHEDULER = "slurm"


def submit(home: Home, slurm: Slurm, profile: Profile, chunk: Chunk, parallel: int) -> dict[str, Record]:
    """Submit the runs of a chunk that nobody else has. Their new records, by run id; none when others have them all.

    SchedulerError when sbatch fails (see `hand_over`).
    """

    def describe(submission: Submission, tasks: list[list[str]], comment: str) -> Mapping[str, Any]:
        script = script_text(submission, comment, profile, chunk.needed, len(tasks), parallel)
        write(submission.script, script.encode(), sync=False)
        return {
            "slots": profile.runs_at_once,
            "minutes": chunk.needed.minutes,
            "signal_before": profile.signal_before,
            "accept_within": profile.accept_within,
        }

    def call(submission: Submission, tasks: list[list[str]], lock: int) -> str:
        return slurm.submit(str(submission.script), [lock])

    place = {"scheduler": SCHEDULER, "cluster": slurm.site().cluster}
    return hand_over(home, place, chunk.tasks, describe, call)
