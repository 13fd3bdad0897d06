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
import subprocess
import sys
from pathlib import Path

from slurm.one_machine.cluster import Cluster
from slurm.one_machine.install import install
from slurm.one_machine.processes import ClusterError


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
        install()
        return
    cluster = Cluster(chosen.folder, nodes=chosen.nodes, accounting=chosen.accounting)
    if chosen.verb == "up":
        try:
            cluster.up()
        except ClusterError:
            cluster.down()
            raise
        print(f"export SLURM_CONF={cluster.configuration}")
    else:
        cluster.down()


if __name__ == "__main__":
    sys.exit(main())
