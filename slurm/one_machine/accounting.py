"""SLURM's accounting: slurmdbd over a separate MariaDB, so that `sacct` reports ended jobs."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

from slurm.one_machine import slurm_conf
from slurm.one_machine.daemons import Commands, end_daemon, wait_until

PROGRAMS = ("slurmdbd", "mariadbd")


class Accounting:
    """The accounting of the cluster `name`, with its files in `root`; both servers listen on this machine only."""

    def __init__(self, root: Path, name: str, commands: Commands) -> None:
        self._root = root
        self._name = name
        self._commands = commands
        self._database: subprocess.Popen[bytes] | None = None

    def up(self, slurmdbd_port: int, database_port: int) -> None:
        """Start MariaDB and slurmdbd, else ClusterError; then add the cluster, and an account `lab` for root."""
        socket_file = self._start_database(database_port)
        client = ["mariadb", "--no-defaults", f"--socket={socket_file}", "--user=root", "--execute"]
        wait_until(lambda: self._commands.succeeds(*client, "select 1"), 120, "MariaDB answers")
        self._commands.run(*client, slurm_conf.DATABASE_GRANTS)
        self._start_slurmdbd(slurmdbd_port, database_port)
        for entity in (
            ["cluster", self._name],
            ["account", "lab", f"cluster={self._name}"],
            ["user", "root", "account=lab"],
        ):
            self._commands.succeeds("sacctmgr", "-i", "add", *entity)  # it fails if the entity exists already

    def down(self) -> None:
        for name in ("slurmdbd", "mariadb"):
            end_daemon(self._root / "run" / f"{name}.pid")
        if self._database is not None:
            self._database.wait()

    def _start_database(self, port: int) -> Path:
        folder = self._root / "database"
        folder.mkdir(exist_ok=True)
        shutil.chown(folder, "mysql", "mysql")
        if not (folder / "mysql").is_dir():
            by_root = ["--auth-root-authentication-method=normal", "--skip-test-db"]
            user = ["--no-defaults", "--user=mysql", f"--datadir={folder}"]
            self._commands.run("mariadb-install-db", *user, *by_root)
        socket_file = folder / "my.sock"
        self._database = self._commands.start(
            "mariadbd", "--no-defaults", "--user=mysql", f"--datadir={folder}", f"--socket={socket_file}",
            f"--port={port}", "--bind-address=127.0.0.1", "--innodb-buffer-pool-size=64M",
            "--innodb-lock-wait-timeout=900",
        )  # fmt: skip
        (self._root / "run" / "mariadb.pid").write_text(str(self._database.pid))
        return socket_file

    def _start_slurmdbd(self, port: int, database_port: int) -> None:
        path = self._root / "etc" / "slurmdbd.conf"
        path.write_text(slurm_conf.SLURMDBD.format(root=self._root, dbd_port=port, database_port=database_port))
        path.chmod(0o600)  # slurmdbd refuses a file that others may read
        self._commands.run("slurmdbd")
        answers = ("sacctmgr", "-n", "list", "cluster")
        wait_until(lambda: self._commands.succeeds(*answers), 120, "slurmdbd answers")
