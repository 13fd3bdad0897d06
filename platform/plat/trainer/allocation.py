"""The other machines of a run, and the command that starts a program on them.

A scheduler that gives a run several machines says so in the environment: SLURM by its own variables, any other by
OTHER_MACHINES, a JSON object of `machines` (the total number) and `command` (the command that starts a program on
others; the number of machines, the program and its arguments are appended).

Promised for such a program: it ends, with all its descendants, when the standard input of the command is closed, or
when the command ends in any way.
"""

from __future__ import annotations

import json
import os
import sys

from plat.errors import RunError

OTHER_MACHINES = "PLAT_OTHER_MACHINES"
_UNTIL_CLOSED = (sys.executable, "-P", "-m", "plat.processes.until_closed")


def machines() -> int:
    """Return how many machines this run was given, this one included; 1 if no scheduler states a number.

    Raises ValueError, TypeError or KeyError if a scheduler's variable is malformed.
    """
    stated = os.environ.get(OTHER_MACHINES)
    if stated:
        return int(json.loads(stated)["machines"])
    return int(os.environ.get("SLURM_JOB_NUM_NODES") or 1)


def require_machines(count: int) -> None:
    """Raise RunError if the run was given fewer than `count` machines."""
    given = machines()
    if given >= count:
        return
    scheduler = "SLURM gave" if "SLURM_JOB_ID" in os.environ else "there is"
    raise RunError(
        f"the run needs {count} machines, and {scheduler} {given}",
        where="its resources",
        fix="use --on slurm or --on ray, and leave `nodes` out of the profile: a run asks for as many as it needs",
    )


def command_on_others(count: int, program: list[str]) -> list[str]:
    """Return the command that starts a program on `count` of the other machines.

    Outside OTHER_MACHINES it is a command for `srun`. It is not checked that there are `count` other machines: call
    `require_machines(count + 1)` first.
    """
    stated = os.environ.get(OTHER_MACHINES)
    if stated:
        return [*json.loads(stated)["command"], str(count), *_UNTIL_CLOSED, *program]
    # All resources that the job has on its machines after the first.
    cpus = os.environ.get("SLURM_CPUS_PER_TASK") or "1"
    spread = [f"--nodes={count}", f"--ntasks={count}", "--ntasks-per-node=1", "--relative=1", f"--cpus-per-task={cpus}"]
    srun = ["srun", *spread, "--overlap", "--mem=0", "--mpi=none", "--kill-on-bad-exit=1", "--export=ALL"]
    return [*srun, *_UNTIL_CLOSED, *program]
