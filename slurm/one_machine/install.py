"""Installs the Debian packages that the tests on a real cluster need."""

from __future__ import annotations

import os
import subprocess

from slurm.one_machine import accounting, cluster
from slurm.one_machine.processes import missing_programs

PACKAGES = ("slurmctld", "slurmd", "slurm-client", "slurmdbd", "munge", "mariadb-server")


def install() -> None:
    """Install the packages that are missing; CalledProcessError when apt cannot."""
    if not missing_programs((*cluster.PROGRAMS, *accounting.PROGRAMS)):
        return
    quiet = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    subprocess.run(["apt-get", "update", "-qq"], check=False, env=quiet)
    command = ["apt-get", "install", "-y", "-qq", "--no-install-recommends", *PACKAGES]
    subprocess.run(command, check=True, env=quiet, stdout=subprocess.DEVNULL)
