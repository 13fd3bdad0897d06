"""The command line of the one-machine SLURM (see `slurm.one_machine.cluster`); give it in plat's checkout.

sudo python -m slurm.one_machine install             the Debian packages
sudo python -m slurm.one_machine up DIR [--accounting] [--nodes 4]
export SLURM_CONF=DIR/etc/slurm.conf
sudo python -m slurm.one_machine down DIR

The nodes node1, node2, ... are processes of this machine. They are in two partitions: a job in `high` preempts one in
`low`, which is the default. DIR keeps the configuration, the logs and the state.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from pathlib import Path

from slurm.one_machine import accounting, postgresql
from slurm.one_machine import cluster as slurm_cluster
from slurm.one_machine.daemons import ClusterError, missing_programs

PACKAGES = ("slurmctld", "slurmd", "slurm-client", "slurmdbd", "munge", "mariadb-server", "postgresql")


def main() -> int:
    try:
        _obey(_parser().parse_args())
    except (ClusterError, OSError, subprocess.SubprocessError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m slurm.one_machine", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    verbs = parser.add_subparsers(dest="verb", required=True)
    verbs.add_parser("install")
    for verb in ("up", "down"):
        command = verbs.add_parser(verb)
        command.add_argument("folder", type=Path)
        command.add_argument("--accounting", action="store_true")
        command.add_argument("--nodes", type=int, default=4)
    return parser


def _obey(chosen: argparse.Namespace) -> None:
    if chosen.verb == "install":
        _install()
        return
    cluster = slurm_cluster.Cluster(chosen.folder, nodes=chosen.nodes, accounting=chosen.accounting)
    if chosen.verb == "up":
        try:
            cluster.up()
        except ClusterError:
            cluster.down()
            raise
        print(f"export SLURM_CONF={cluster.configuration}")
    else:
        cluster.down()


def _install() -> None:
    """Install the missing Debian packages; raise ClusterError if the cluster cannot run on this machine."""
    if os.getuid() != 0:
        raise ClusterError("SLURM's daemons need root to run jobs of users")
    if not missing_programs((*slurm_cluster.PROGRAMS, *accounting.PROGRAMS)) and postgresql.programs() is not None:
        return
    if missing_programs(["apt-get"]):
        raise ClusterError("SLURM is not installed, and there is no apt-get to install Debian's packages")
    quiet = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    subprocess.run(["apt-get", "update", "-qq"], env=quiet, capture_output=True)
    command = ["apt-get", "install", "-y", "-qq", "--no-install-recommends", *PACKAGES]
    done = subprocess.run(command, env=quiet, capture_output=True, text=True)
    if done.returncode:
        raise ClusterError(f"Debian's packages of SLURM cannot be installed: {done.stderr.strip()[-500:]}")


if __name__ == "__main__":
    sys.exit(main())
