"""A PostgreSQL in a folder, for tests of a team's store. It is reached only through a socket in that folder."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from slurm.one_machine.daemons import ClusterError, Commands, wait_until

USER = "postgres"  # Debian's package creates the user; the server refuses to run as root
DEBIAN = Path("/usr/lib/postgresql")  # one folder for each version, none of them on the PATH


def programs() -> Path | None:
    """Return the folder with the programs of the newest installed version; None if there is none."""
    return max(DEBIAN.glob("*/bin"), key=lambda folder: int(folder.parent.name), default=None)


class PostgreSQL:
    """A server with one empty database. The user `postgres` must be able to reach `folder`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def uri(self) -> str:
        """The URI of the database for SQLAlchemy and MLflow."""
        return f"postgresql://{USER}@/{USER}?host={self.folder}"

    def up(self) -> None:
        """Start the server and wait until it answers, else ClusterError. As root, give the folder to `postgres`."""
        binaries = programs()
        if binaries is None:
            raise ClusterError("not installed: postgresql (run `python -m slurm.one_machine install` as root)")
        commands = Commands({}, self.folder)
        as_user = self._as_user()
        data = self.folder / "data"
        if not data.exists():
            commands.run(*as_user, str(binaries / "initdb"), "--auth=trust", f"--username={USER}", f"--pgdata={data}")
        settings = [f"unix_socket_directories={self.folder}", "listen_addresses="]
        options = [word for setting in settings for word in ("-c", setting)]
        self._process = commands.start(*as_user, str(binaries / "postgres"), "-D", str(data), *options)
        ready = [str(binaries / "pg_isready"), "--quiet", f"--host={self.folder}"]
        wait_until(lambda: commands.succeeds(*ready), 120, f"PostgreSQL answers (see {self.folder})")

    def down(self) -> None:
        """End the server that `up` has started, and open connections. TimeoutExpired if it runs on for 60 s."""
        if self._process is not None:
            self._process.send_signal(2)  # SIGINT: a fast shutdown
            self._process.wait(60)

    def _as_user(self) -> list[str]:
        if os.getuid() != 0:
            return []
        subprocess.run(["chown", f"{USER}:", str(self.folder)], check=True)
        return ["setpriv", f"--reuid={USER}", f"--regid={USER}", "--clear-groups"]
