"""Start a script, pass its output on, and end it."""

from __future__ import annotations

import contextlib
import os
import queue
import signal
import subprocess
import threading
import time
from collections.abc import Mapping
from pathlib import Path

from plat.errors import RunError
from plat.trainer.heartbeat import beat
from plat.trainer.script.metrics import LONGEST_LINE

LARGEST_LOG = 100 << 20  # bytes of output in the run's log; further output is read and dropped
CHUNK = 1 << 16
DRAIN = 1.0  # seconds in which the output is read to its end after the script; a daemon may hold it open


class Script:
    """A running command. `lines` receives (line, time) of its output, and None at the end of the output."""

    def __init__(self, words: list[str], folder: Path, environment: Mapping[str, str]) -> None:
        self.lines: queue.Queue[tuple[bytes, float] | None] = queue.Queue(maxsize=10_000)
        self.last = ""  # the last line of the output, for the reason of a failure
        try:
            self._process = subprocess.Popen(
                words,
                cwd=folder,
                env={**os.environ, **environment},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        except OSError as error:
            what = f"cannot start {words[0]!r}: {error.strerror}"
            raise RunError(what, where=str(folder), fix=_advice(error)) from None
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        with self._process.stdout as output:
            rest, written = b"", 0
            while chunk := os.read(output.fileno(), CHUNK):
                beat()
                written = self._copy(chunk, written)
                *lines, rest = (rest + chunk).split(b"\n")
                rest = b"" if len(rest) > LONGEST_LINE else rest
                for line in lines:
                    self._pass_on(line)
        self._pass_on(rest)
        self.lines.put(None)

    def _copy(self, chunk: bytes, written: int) -> int:
        """Copy output into the run's log unless it is full; return the bytes written so far."""
        if written >= LARGEST_LOG:
            return written
        print(chunk.decode("utf-8", "replace"), end="", flush=True)
        if written + len(chunk) >= LARGEST_LOG:
            print(f"\n[plat: further output is left out, after {LARGEST_LOG >> 20} MiB]", flush=True)
        return written + len(chunk)

    def _pass_on(self, line: bytes) -> None:
        if text := line.strip():
            self.last = text[-300:].decode("utf-8", "replace")
            if text.startswith(b"{"):
                self.lines.put((text, time.time()))

    @property
    def code(self) -> int | None:
        """The exit code, None while the script runs."""
        return self._process.poll()

    def wait(self, seconds: float) -> None:
        """Wait until the script ends, at most for `seconds`."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(max(0.0, seconds))

    def wait_for_output(self) -> None:
        """Read the output to its end, for at most DRAIN seconds. Call it when the script has ended."""
        self._reader.join(DRAIN)

    def end(self, grace: float) -> None:
        """Send SIGTERM to the script and its group, and SIGKILL after `grace` seconds."""
        self._signal(signal.SIGTERM)
        try:
            self._process.wait(grace)
        except subprocess.TimeoutExpired:
            print(f"[plat: the script did not end within {grace:g} s after SIGTERM: SIGKILL]", flush=True)
            self._signal(signal.SIGKILL)
            self._process.wait()

    def _signal(self, number: signal.Signals) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, number)


def _advice(error: OSError) -> str:
    if isinstance(error, PermissionError):
        return "make the file executable (chmod +x), or name its interpreter first: bash run.sh"
    if isinstance(error, FileNotFoundError):
        return "check the first word of script.command, and script.folder"
    return "check script.command"
