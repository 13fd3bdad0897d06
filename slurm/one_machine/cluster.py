"""A real SLURM on one machine, for tests: munge, slurmctld, several slurmd, and slurmdbd over MariaDB if asked for.

    sudo python slurm/one_machine/cluster.py install             the Debian packages
    sudo python slurm/one_machine/cluster.py up DIR [--accounting] [--nodes 4]
    export SLURM_CONF=DIR/etc/slurm.conf
    sudo python slurm/one_machine/cluster.py down DIR

Needs root and Debian's packages of SLURM 22.05 or later; needs neither systemd nor a network. Every daemon is started
by us, from files in DIR, on ports and sockets of its own, and is ended by its process number; nothing of the machine's
own is touched, except that munge's folders and key are made where they are missing.

Partitions: `low` (the default; its jobs are requeued when `high` needs the nodes), `high`. Each node has 4 CPUs on
paper, so that several tasks run at once on a small machine.
"""

from __future__ import annotations

import argparse
import contextlib
import grp
import os
import pwd
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

PACKAGES = ("slurmctld", "slurmd", "slurm-client", "slurmdbd", "munge", "mariadb-server")
PROGRAMS = ("slurmctld", "slurmd", "sbatch", "munged")
ACCOUNTING_PROGRAMS = ("slurmdbd", "mariadbd")
SETTINGS = """\
ClusterName={name}
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={port}
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
CredType=cred/munge
AuthInfo=socket={root}/run/munge.socket,cred_expire=5
StateSaveLocation={root}/state
SlurmdSpoolDir={root}/spool/%n
SlurmctldPidFile={root}/run/slurmctld.pid
SlurmdPidFile={root}/run/slurmd-%n.pid
SlurmctldLogFile={root}/log/slurmctld.log
SlurmdLogFile={root}/log/slurmd-%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SwitchType=switch/none
MpiDefault=none
ReturnToService=2
SlurmdParameters=config_overrides
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
DefMemPerCPU=100
JobAcctGatherType=jobacct_gather/none
SchedulerType=sched/backfill
SchedulerParameters=bf_interval=2,sched_interval=2,batch_sched_delay=0
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
SlurmctldParameters=preempt_send_user_signal
JobRequeue=1
KillWait=5
MinJobAge={min_job_age}
MaxArraySize=1001
SlurmctldTimeout=60
SlurmdTimeout=60
BatchStartTimeout=20
AccountingStorageType={accounting}
NodeName=node[1-{nodes}] NodeHostname={host} NodeAddr=127.0.0.1 Port=[{first}-{last}] CPUs=4 Boards=1 Sockets=1 \
CoresPerSocket=4 ThreadsPerCore=1 RealMemory=4000 State=UNKNOWN
PartitionName=low Nodes=ALL Default=YES MaxTime=INFINITE PriorityTier=1 PreemptMode=REQUEUE GraceTime=10 State=UP
PartitionName=high Nodes=ALL Default=NO MaxTime=INFINITE PriorityTier=10 PreemptMode=OFF State=UP
"""
DATABASE_SETTINGS = """\
AuthType=auth/munge
AuthInfo=socket={root}/run/munge.socket
DbdHost=localhost
DbdAddr=127.0.0.1
DbdPort={dbd_port}
SlurmUser=root
LogFile={root}/log/slurmdbd.log
PidFile={root}/run/slurmdbd.pid
StorageType=accounting_storage/mysql
StorageHost=127.0.0.1
StoragePort={database_port}
StorageUser=slurm
StoragePass=slurm
StorageLoc=slurm_acct_db
"""
GRANTS = """\
create database if not exists slurm_acct_db;
create user if not exists 'slurm'@'127.0.0.1' identified by 'slurm';
create user if not exists 'slurm'@'localhost' identified by 'slurm';
grant all on slurm_acct_db.* to 'slurm'@'127.0.0.1';
grant all on slurm_acct_db.* to 'slurm'@'localhost';
flush privileges;
"""


class ClusterError(Exception):
    """The cluster cannot be started; the message says why."""


class Cluster:
    """A cluster in a folder. `environment` is what a client needs to talk to it."""

    def __init__(self, root: Path, *, nodes: int = 4, accounting: bool = False, min_job_age: int = 300) -> None:
        self.root = root.absolute()
        self.nodes = nodes
        self.accounting = accounting
        self.min_job_age = min_job_age
        self.name = "onemachine"
        self.configuration = self.root / "etc" / "slurm.conf"
        self._database: subprocess.Popen[bytes] | None = None

    @property
    def environment(self) -> dict[str, str]:
        return {"SLURM_CONF": str(self.configuration)}

    def up(self) -> None:
        """Start every daemon and wait until all nodes are idle."""
        missing = [name for name in self._programs() if shutil.which(name, path=_path()) is None]
        if missing:
            raise ClusterError(f"not installed: {', '.join(missing)} (run `cluster.py install` as root)")
        if os.getuid() != 0:
            raise ClusterError("SLURM's daemons need root to run jobs")
        for folder in ("etc", "state", "spool", "log", "run"):
            (self.root / folder).mkdir(parents=True, exist_ok=True)
        self.root.chmod(0o755)
        self._start_munge()
        ports = _free_ports(self.nodes + 3)
        self._write_settings(ports)
        if self.accounting:
            self._start_accounting(ports[-2], ports[-1])
        self.start_controller()
        for number in range(1, self.nodes + 1):
            self._run("slurmd", "-N", f"node{number}")
        _wait(self._all_idle, 120, f"nodes become idle (see {self.root}/log)")

    def start_controller(self) -> None:
        self._run("slurmctld", "-i")
        _wait(lambda: self._succeeds("scontrol", "ping"), 90, "slurmctld answers")

    def stop_controller(self) -> None:
        self._end(self.root / "run" / "slurmctld.pid")

    def down(self) -> None:
        """End what `up` has started, clients of the jobs first."""
        if self._succeeds("scontrol", "ping"):
            self._succeeds("scancel", "--state=PENDING", "--user=root")
            self._succeeds("scancel", "--state=RUNNING", "--user=root")
            with contextlib.suppress(ClusterError):
                _wait(lambda: not self._answer("squeue", "-h"), 20, "jobs end")
        names = ["slurmctld", *(f"slurmd-node{number}" for number in range(1, 100)), "slurmdbd", "mariadb", "munged"]
        for name in names:
            self._end(self.root / "run" / f"{name}.pid")
        if self._database is not None:
            self._database.wait(20)

    def _programs(self) -> Sequence[str]:
        return (*PROGRAMS, *ACCOUNTING_PROGRAMS) if self.accounting else PROGRAMS

    def _write_settings(self, ports: Sequence[int]) -> None:
        first = ports[1]
        accounting = "accounting_storage/none"
        if self.accounting:
            pairs = {"Host": "127.0.0.1", "Port": ports[-2], "Pass": self.root / "run" / "munge.socket"}
            lines = [f"AccountingStorage{name}={value}" for name, value in pairs.items()]
            accounting = "\n".join(["accounting_storage/slurmdbd", *lines])
        text = SETTINGS.format(
            name=self.name,
            host=socket.gethostname().split(".")[0],
            root=self.root,
            port=ports[0],
            nodes=self.nodes,
            first=first,
            last=first + self.nodes - 1,
            min_job_age=self.min_job_age,
            accounting=accounting,
        )
        self.configuration.write_text(text)

    def _start_munge(self) -> None:
        """A munged of our own, with a key and a socket in the cluster's folder."""
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
        self._run(*as_munge, "munged", *files)
        _wait((folder / "munge.socket").exists, 10, "munged listens")

    def _start_accounting(self, dbd_port: int, database_port: int) -> None:
        folder = self.root / "database"
        folder.mkdir(exist_ok=True)
        shutil.chown(folder, "mysql", "mysql")
        by_root = ["--auth-root-authentication-method=normal", "--skip-test-db"]
        if not (folder / "mysql").is_dir():
            self._run("mariadb-install-db", "--no-defaults", "--user=mysql", f"--datadir={folder}", *by_root)
        socket_file = folder / "my.sock"
        with open(self.root / "log" / "mariadb.log", "ab") as log:
            server = subprocess.Popen(
                [
                    "mariadbd", "--no-defaults", "--user=mysql", f"--datadir={folder}", f"--socket={socket_file}",
                    f"--port={database_port}", "--bind-address=127.0.0.1", "--innodb-buffer-pool-size=64M",
                    "--innodb-lock-wait-timeout=900",
                ],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True, env=self._environment(),
            )  # fmt: skip
        self._database = server
        (self.root / "run" / "mariadb.pid").write_text(str(server.pid))
        client = ["mariadb", "--no-defaults", f"--socket={socket_file}", "--user=root", "--execute"]
        _wait(lambda: self._succeeds(*client, "select 1"), 120, "MariaDB answers")
        self._run(*client, GRANTS)
        settings = self.root / "etc" / "slurmdbd.conf"
        settings.write_text(DATABASE_SETTINGS.format(root=self.root, dbd_port=dbd_port, database_port=database_port))
        settings.chmod(0o600)
        self._run("slurmdbd")
        _wait(lambda: self._succeeds("sacctmgr", "-n", "list", "cluster"), 120, "slurmdbd answers")
        for what in (
            ["cluster", self.name],
            ["account", "lab", f"cluster={self.name}"],
            ["user", "root", "account=lab"],
        ):
            self._succeeds("sacctmgr", "-i", "add", *what)

    def _all_idle(self) -> bool:
        return self._answer("sinfo", "-h", "-N", "-p", "low", "-o", "%T").split() == ["idle"] * self.nodes

    def _environment(self) -> Mapping[str, str]:
        return {**os.environ, **self.environment, "PATH": _path()}

    def _run(self, *command: str) -> None:
        """Run a command that ends (daemons put themselves into the background); ClusterError with what it said."""
        log = self.root / "log" / f"{Path(command[0]).name}-start.txt"
        with open(log, "ab") as output:  # a pipe would be held open by the daemon
            done = subprocess.run(
                command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, env=self._environment(), timeout=120
            )
        if done.returncode:
            raise ClusterError(f"{command[0]} failed: {log.read_text(errors='replace').strip()[-500:]}")

    def _succeeds(self, *command: str) -> bool:
        try:
            done = subprocess.run(command, capture_output=True, env=self._environment(), timeout=30)
        except (OSError, subprocess.TimeoutExpired):
            return False
        return done.returncode == 0

    def _answer(self, *command: str) -> str:
        done = subprocess.run(command, capture_output=True, text=True, env=self._environment(), timeout=30)
        return done.stdout

    def _end(self, pid_file: Path) -> None:
        """End the process whose number is in a file that one of our daemons has written."""
        try:
            pid = int(pid_file.read_text())
        except (OSError, ValueError):
            return
        for number in (signal.SIGTERM, signal.SIGKILL):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)
            with contextlib.suppress(ClusterError):
                _wait(lambda: not _runs(pid), 20, "it ends")
                break
        pid_file.unlink(missing_ok=True)


def _path() -> str:
    return os.environ.get("PATH", "") + ":/usr/sbin:/sbin"


def _runs(pid: int) -> bool:
    try:
        with contextlib.suppress(ChildProcessError):
            os.waitpid(pid, os.WNOHANG)
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def _free_ports(count: int) -> list[int]:
    """Consecutive ports on which nobody listens; two clusters that start at once begin at different ones."""
    start = 17000 + 50 * (os.getpid() % 200)
    for first in (*range(start, 30000, 50), *range(17000, start, 50)):
        sockets = []
        try:
            for port in range(first, first + count):
                sockets.append(socket.create_server(("127.0.0.1", port)))
            return list(range(first, first + count))
        except OSError:
            continue
        finally:
            for open_socket in sockets:
                open_socket.close()
    raise ClusterError("no free ports")


def _wait(condition: Callable[[], bool], seconds: float, what: str) -> None:
    until = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > until:
            raise ClusterError(f"waited {seconds:.0f} s in vain until {what}")
        time.sleep(0.1)


def install() -> None:
    """Install the Debian packages that are missing."""
    if all(shutil.which(name, path=_path()) for name in (*PROGRAMS, *ACCOUNTING_PROGRAMS)):
        return
    quiet = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    subprocess.run(["apt-get", "update", "-qq"], check=False, env=quiet)
    command = ["apt-get", "install", "-y", "-qq", "--no-install-recommends", *PACKAGES]
    subprocess.run(command, check=True, env=quiet, stdout=subprocess.DEVNULL)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    verbs = parser.add_subparsers(dest="verb", required=True)
    verbs.add_parser("install")
    for verb in ("up", "down"):
        command = verbs.add_parser(verb)
        command.add_argument("folder", type=Path)
        command.add_argument("--accounting", action="store_true")
        command.add_argument("--nodes", type=int, default=4)
    chosen = parser.parse_args()
    try:
        if chosen.verb == "install":
            install()
            return 0
        cluster = Cluster(chosen.folder, nodes=chosen.nodes, accounting=chosen.accounting)
        if chosen.verb == "up":
            cluster.up()
            print(f"export SLURM_CONF={cluster.configuration}")
        else:
            cluster.down()
    except (ClusterError, subprocess.SubprocessError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
