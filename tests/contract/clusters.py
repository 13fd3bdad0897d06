"""The clusters that the contract tests run on: nothing (local), the fake SLURM, a real one on this machine."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
TOY = ROOT / "tests" / "toy"
PYTHONPATH = os.pathsep.join(filter(None, [str(TOY), os.environ.get("PYTHONPATH")]))  # of tasks
FAKE = Path(__file__).parent / "fake_slurm"
QUICK = ("cluster.refresh=0.2", "cluster.accept_within=3")  # for a SLURM that is near
COMMANDS = ("sbatch", "srun", "squeue", "sacct", "scancel", "scontrol", "sinfo")


class FakeSlurm:
    """A running fake SLURM in a folder; `environment` puts its commands on the PATH."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        programs = folder / "bin"
        programs.mkdir(parents=True)
        for name in COMMANDS:
            script = programs / name
            script.write_text(f"#!{sys.executable} -SE\n" + (FAKE / "client.py").read_text())
            script.chmod(0o755)
        self.environment = {"PATH": f"{programs}:{os.environ['PATH']}", "FAKE_SLURM": str(folder)}
        with open(folder / "controller.txt", "ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, str(FAKE / "controller.py"), str(folder)],
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        until = time.monotonic() + 30
        while not self._listens():
            assert self._process.poll() is None and time.monotonic() < until, (folder / "controller.txt").read_text()
            time.sleep(0.01)

    def _listens(self) -> bool:
        """Whether the controller takes connections; its socket is there a moment before."""
        try:
            self._ask("calls")
        except OSError:
            return False
        return True

    def _ask(self, what: str, *arguments: Any) -> Any:
        with socket.socket(socket.AF_UNIX) as connection:
            connection.connect(str(self.folder / "socket"))
            request = {"command": "test", "what": what, "arguments": arguments}
            connection.sendall(json.dumps(request).encode() + b"\n")
            with connection.makefile() as lines:
                line = lines.readline()
        return json.loads(json.loads(line)["out"]) if line else None

    def set(self, **values: Any) -> None:
        self._ask("set", values)

    def calls(self) -> dict[str, int]:
        return self._ask("calls")

    def advance(self, seconds: float) -> None:
        self._ask("advance", seconds)

    def tasks(self) -> list[dict[str, Any]]:
        return self._ask("tasks")

    def fail_node(self, task: str) -> None:
        self._ask("fail_node", task)

    def stop(self) -> None:
        self._ask("stop")
        self._process.wait(20)
