"""Installs the Debian packages that the tests on a real cluster, and of a team's store, need."""

from __future__ import annotations

import os
import subprocess

from slurm.one_machine import accounting, cluster, postgresql
from slurm.one_machine.processes import ClusterError, missing_programs

PACKAGES = ("slurmctld", "slurmd", "slurm-client", "slurmdbd", "munge", "mariadb-server", "postgresql")


def install() -> None:
    """Install the packages that are missing; ClusterError when the cluster cannot run on this machine."""
    if os.getuid() != 0:
        raise ClusterError("SLURM's daemons need root to run jobs of users")
    if not missing_programs((*cluster.PROGRAMS, *accounting.PROGRAMS)) and postgresql.programs() is not None:
        return
    if missing_programs(["apt-get"]):
        raise ClusterError("SLURM is not installed, and there is no apt-get to install Debian's packages")
    quiet = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    subprocess.run(["apt-get", "update", "-qq"], env=quiet, capture_output=True)
    command = ["apt-get", "install", "-y", "-qq", "--no-install-recommends", *PACKAGES]
    done = subprocess.run(command, env=quiet, capture_output=True, text=True)
    if done.returncode:
        raise ClusterError(f"Debian's packages of SLURM cannot be installed: {done.stderr.strip()[-500:]}")
