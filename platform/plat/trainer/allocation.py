"""The machines of a run besides the one that executes it, and how a program is started on each of them.

A scheduler that gives a run several machines says so in the environment: SLURM by its own variables, and any other by
OTHER_MACHINES, a JSON object of `machines` (how many there are in all) and `command` (what starts a program on others:
the command, then the number of machines, then the program and its arguments).

Promised of a program that is started this way: it ends, with everything that it has started, when the standard input
of the command is closed, or when the command ends in whatever way.
"""

from __future__ import annotations

import json
import os
import sys

from plat.errors import RunError

OTHER_MACHINES = "PLAT_OTHER_MACHINES"
_UNTIL_CLOSED = (sys.executable, "-m", "plat.runner.until_closed")


def machines() -> int:
    """How many machines this run was given, its own included."""
    stated = os.environ.get(OTHER_MACHINES)
    if stated:
        return int(json.loads(stated)["machines"])
    return int(os.environ.get("SLURM_JOB_NUM_NODES") or 1)


def require_machines(count: int) -> None:
    """RunError where the run was given fewer machines."""
    given = machines()
    if given >= count:
        return
    scheduler = "SLURM gave" if "SLURM_JOB_ID" in os.environ else "there is"
    raise RunError(
        f"the run needs {count} machines, and {scheduler} {given}",
        where="verl.nodes",
        mend="use --on slurm or --on ray, and leave `nodes` out of the profile: a run asks for as many as it needs",
    )


def command_on_others(count: int, program: list[str]) -> list[str]:
    """The command that starts a program on so many of the other machines."""
    stated = os.environ.get(OTHER_MACHINES)
    if stated:
        return [*json.loads(stated)["command"], str(count), *_UNTIL_CLOSED, *program]
    return [*_srun(count), *_UNTIL_CLOSED, *program]


def _srun(count: int) -> list[str]:
    """srun on the machines of the job after the first. The step may use what the whole job was given there."""
    cpus = os.environ.get("SLURM_CPUS_PER_TASK") or "1"
    spread = [f"--nodes={count}", f"--ntasks={count}", "--ntasks-per-node=1", "--relative=1", f"--cpus-per-task={cpus}"]
    return ["srun", *spread, "--overlap", "--mem=0", "--mpi=none", "--kill-on-bad-exit=1", "--export=ALL"]
