"""A real `mlflow server` in a process group of its own, which can be killed and started again at the same address."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

from plat.store.mlflow.mlflow_client import QUIET


class MlflowServer:
    """`store` is the database behind it; `folder` gets its log and the artifacts."""

    def __init__(self, folder: Path, store: str, workers: int = 1) -> None:
        self.folder = folder
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        self.url = f"http://127.0.0.1:{port}"
        self._command = [sys.executable, "-m", "mlflow", "server", "--host", "127.0.0.1", "--port", str(port)]
        self._command += ["--backend-store-uri", store, "--artifacts-destination", str(folder / "files")]
        self._command += ["--workers", str(workers)]
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it, and wait until it answers."""
        environment = {**os.environ, **QUIET, "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false"}
        with open(self.folder / "server.log", "ab") as log:
            self._process = subprocess.Popen(
                self._command, env=environment, stdout=log, stderr=log, start_new_session=True
            )
        until = time.monotonic() + 600
        while not self._answers():
            assert self._process.poll() is None and time.monotonic() < until, self.log()
            time.sleep(0.2)

    def end(self, number: int = signal.SIGTERM) -> None:
        """Send a signal to all of its processes, and wait for its end."""
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, number)
            self._process.wait(60)
            self._process = None

    def log(self) -> str:
        return (self.folder / "server.log").read_text(errors="replace")[-3000:]

    def _answers(self) -> bool:
        try:
            urllib.request.urlopen(f"{self.url}/health", timeout=5).close()
        except OSError:
            return False
        return True
