"""A real SLURM on one machine, for tests: munge, slurmctld, several slurmd, and optionally slurmdbd over MariaDB.

Needs root and Debian's packages of SLURM 22.05 or later (`install`), but neither systemd nor a network. Every daemon
uses files in one folder and separate ports and sockets, and is ended by its process number. Nothing else on the machine
is touched. Partitions: `low` (the default; its jobs are requeued when `high` needs the nodes) and `high`.
"""

from __future__ import annotations

import contextlib
import grp
import os
import pwd
import socket
from collections.abc import Sequence
from pathlib import Path

from slurm.one_machine import slurm_conf
from slurm.one_machine.accounting import PROGRAMS as ACCOUNTING_PROGRAMS
from slurm.one_machine.accounting import Accounting
from slurm.one_machine.daemons import (
    ClusterError,
    Commands,
    end_daemon,
    free_ports,
    missing_programs,
    wait_until,
)

PROGRAMS = ("slurmctld", "slurmd", "sbatch", "munged")
MOST_NODES = 100


class Cluster:
    """A cluster in a folder. `environment` has the variables that a client needs; `min_job_age` is in seconds."""

    def __init__(self, root: Path, *, nodes: int = 4, accounting: bool = False, min_job_age: int = 300) -> None:
        self.root = root.absolute()
        self.nodes = nodes
        self.accounting = accounting
        self.min_job_age = min_job_age
        self.name = "onemachine"
        self.configuration = self.root / "etc" / "slurm.conf"
        self._commands = Commands(self.environment, self.root / "log")
        self._accounting = Accounting(self.root, self.name, self._commands)

    @property
    def environment(self) -> dict[str, str]:
        return {"SLURM_CONF": str(self.configuration)}

    def up(self) -> None:
        """Start every daemon and wait until all nodes are idle. After a ClusterError, `down` ends what has started."""
        missing = missing_programs((*PROGRAMS, *ACCOUNTING_PROGRAMS) if self.accounting else PROGRAMS)
        if missing:
            raise ClusterError(
                f"not installed: {', '.join(missing)} (run `python -m slurm.one_machine install` as root)"
            )
        if os.getuid() != 0:
            raise ClusterError("SLURM's daemons need root to run jobs")
        for folder in ("etc", "state", "spool", "log", "run"):
            (self.root / folder).mkdir(parents=True, exist_ok=True)
        self.root.chmod(0o755)
        self._start_munge()
        ports = free_ports(self.nodes + 3)
        self._write_settings(ports)
        if self.accounting:
            self._accounting.up(ports[-2], ports[-1])
        self.start_controller()
        for number in range(1, self.nodes + 1):
            self._commands.run("slurmd", "-N", f"node{number}")
        wait_until(self._all_idle, 120, f"nodes become idle (see {self.root}/log)")

    def start_controller(self) -> None:
        self._commands.run("slurmctld", "-i")
        wait_until(self._answers, 90, "slurmctld answers")

    def stop_controller(self) -> None:
        end_daemon(self.root / "run" / "slurmctld.pid")

    def down(self) -> None:
        """End root's jobs, and then the daemons in this folder, also those that another process has started."""
        if self._answers():
            for state in ("PENDING", "RUNNING"):
                self._commands.succeeds("scancel", f"--state={state}", "--user=root")
            with contextlib.suppress(ClusterError):
                wait_until(lambda: not self._commands.output("squeue", "-h"), 20, "jobs end")
        for name in ("slurmctld", *(f"slurmd-node{number}" for number in range(1, MOST_NODES))):
            end_daemon(self.root / "run" / f"{name}.pid")
        self._accounting.down()
        end_daemon(self.root / "run" / "munged.pid")

    def _write_settings(self, ports: Sequence[int]) -> None:
        first = ports[1]
        self.configuration.write_text(
            slurm_conf.SLURM.format(
                name=self.name,
                host=socket.gethostname().split(".")[0],
                root=self.root,
                port=ports[0],
                nodes=self.nodes,
                first=first,
                last=first + self.nodes - 1,
                min_job_age=self.min_job_age,
                accounting=self._accounting_settings(ports[-2]),
            )
        )

    def _accounting_settings(self, port: int) -> str:
        if not self.accounting:
            return "accounting_storage/none"
        pairs = {"Host": "127.0.0.1", "Port": port, "Pass": self.root / "run" / "munge.socket"}
        lines = [f"AccountingStorage{name}={value}" for name, value in pairs.items()]
        return "\n".join(["accounting_storage/slurmdbd", *lines])

    def _start_munge(self) -> None:
        """Start a separate munged, with its key and socket in the cluster's folder."""
        user, group = pwd.getpwnam("munge").pw_uid, grp.getgrnam("munge").gr_gid
        folder = self.root / "run"
        keys = self.root / "munge"
        keys.mkdir(exist_ok=True)
        key = keys / "munge.key"
        if not key.exists():
            key.write_bytes(os.urandom(1024))
        for path, mode in ((key, 0o400), (keys, 0o700), (folder, 0o755)):
            os.chown(path, user, group)
            path.chmod(mode)
        files = [f"--key-file={key}", f"--socket={folder}/munge.socket", f"--pid-file={folder}/munged.pid"]
        files += [f"--log-file={keys}/munged.log", f"--seed-file={keys}/munged.seed", "--force"]
        as_munge = ["setpriv", "--reuid", "munge", "--regid", "munge", "--clear-groups"]
        self._commands.run(*as_munge, "munged", *files)
        wait_until((folder / "munge.socket").exists, 10, "munged listens")

    def _answers(self) -> bool:
        return self._commands.succeeds("scontrol", "ping")

    def _all_idle(self) -> bool:
        states = self._commands.output("sinfo", "-h", "-N", "-p", "low", "-o", "%T").split()
        return states == ["idle"] * self.nodes
