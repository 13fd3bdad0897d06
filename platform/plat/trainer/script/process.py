"""Start a script, pass its output on, and end it."""

from __future__ import annotations

import codecs
import contextlib
import errno
import os
import queue
import re
import signal
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from plat.characters import as_lines, escaped
from plat.errors import RunError
from plat.processes.own_process import wait_for_end
from plat.trainer.script.readers.metrics_file import LONGEST_LINE

LARGEST_LOG = 100 << 20  # bytes of output in the run's log; further output is read and dropped
CHUNK = 1 << 16
LATE = 1 << 20  # bytes of output of its daemons that are logged after the script has ended
DRAIN = 1.0  # seconds for which output is read after the script; a daemon may hold it open, or write for ever
LONGEST_SHOWN = 4096  # bytes of such a line
LAST = 300  # bytes of the last line of the output
SHOWN = 20  # lines of the output that an error message may quote


class Line(NamedTuple):
    """A line of the output without its end; `is_bar`: a piece of one that has carriage returns."""

    text: bytes
    time: float
    is_bar: bool


# A line that ends an output and does not say why: a rule, or what Hydra prints below every error.
NO_REASON = re.compile(rb"[\s=*#_~+-]+|Set the environment variable HYDRA_FULL_ERROR=1.*\s*")
# An exception of Python, the error of R; below it may be more of its text.
ERROR = re.compile(rb"\s*([\w.]+(Error|Exception)\b|Error in |Error: )")


class Script:
    """A running command. `last`: the last line of its output. `heard`: the monotonic time of its newest output.

    tail         the last lines of its output
    environment  variables that are added; None removes one
    needle       only lines with these bytes are passed on
    """

    def __init__(
        self, words: list[str], folder: Path, environment: Mapping[str, str | None], needle: bytes = b"{"
    ) -> None:
        self.last = ""
        self.tail: deque[bytes] = deque(maxlen=SHOWN)
        self._needle = needle
        self.heard = time.monotonic()
        self._lines: queue.Queue[Line | None] = queue.Queue(maxsize=10_000)
        self._is_in_bar = False  # the newest piece ended with a carriage return
        self._is_over = False  # nobody takes lines any more
        self._log = sys.stdout  # of this run; the process may execute another run when a daemon still writes
        self._room = LARGEST_LOG  # bytes that still fit into the log
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        try:
            self._process = subprocess.Popen(
                words,
                cwd=folder,
                env={name: value for name, value in {**os.environ, **environment}.items() if value is not None},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        except OSError as error:
            what = f"cannot start {words[0]!r}: {error.strerror}"
            raise RunError(what, where=str(folder), fix=_advice(error, folder / words[0])) from None
        threading.Thread(target=self._read, daemon=True).start()

    def output(self, seconds: float) -> Iterator[Line]:
        """Yield lines of the output for `seconds`; return early when the script ends."""
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0:
            try:
                line = self._lines.get(timeout=left)
            except queue.Empty:
                return
            if line is None:
                self._lines.put(None)  # for the next call
                self._wait(until - time.monotonic())
                return
            yield line

    def _wait(self, seconds: float) -> None:
        """Wait at most `seconds` for the end of the script."""
        if self._process.returncode is None:  # else it is reaped, and its number may be that of another process
            end = os.pidfd_open(self._process.pid)
            wait_for_end(end, max(0.0, seconds))
            os.close(end)

    def rest_of_output(self) -> Iterator[Line]:
        """Yield what `output` has not, after the end of the script. Afterwards `is_held`: a daemon may still write."""
        until, self.is_held = time.time() + DRAIN, True
        with contextlib.suppress(queue.Empty):
            while (line := self._lines.get(timeout=DRAIN)) is not None and line.time < until:
                yield line
            self.is_held = line is not None

    def close(self) -> None:
        """Take no more lines from daemons that outlive the script; the log gets LATE bytes of what they print."""
        self._is_over = True
        self._room = min(self._room, LATE)
        with contextlib.suppress(queue.Empty):
            while True:
                self._lines.get_nowait()

    @property
    def reason(self) -> str:
        """Why it failed: the last error that it printed, else its last line."""
        errors = [line for line in self.tail if ERROR.match(line)]
        return _shown(errors[-1]) if errors else self.last

    @property
    def code(self) -> int | None:
        """The exit code, None while the script runs."""
        return self._process.poll()

    def ask_to_end(self) -> None:
        """Send SIGTERM to the script and its group."""
        self._signal(signal.SIGTERM)

    def kill(self) -> None:
        """Send SIGKILL to the script and its group, and wait for the end of the script."""
        self._signal(signal.SIGKILL)
        self._process.wait()

    def _signal(self, number: signal.Signals) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, number)

    def _read(self) -> None:
        assert self._process.stdout is not None
        try:
            with self._process.stdout as output:
                rest = b""
                while (chunk := os.read(output.fileno(), CHUNK)) and not self._log.closed:
                    self.heard = time.monotonic()
                    self._copy(chunk)
                    data = rest + chunk
                    end = max(data.rfind(b"\n"), data.rfind(b"\r")) + 1
                    rest = data[end:]
                    self._pass_on(data[:end])
                    if len(rest) > LONGEST_LINE:
                        rest = b"..." + rest[-LAST:]  # the rest of this line is no JSON object
            self._pass_on(rest)
        finally:
            self._lines.put(None)

    def _copy(self, chunk: bytes) -> None:
        """Copy output into the run's log unless it is full."""
        if self._room <= 0:
            return
        self._room -= len(chunk)
        try:
            print(self._decoder.decode(chunk), end="", flush=True, file=self._log)
            if self._room <= 0:
                print("\n[plat: further output is left out]", flush=True, file=self._log)
        except (OSError, ValueError):  # the disk is full: the script must not wait; or the log is closed
            self._room = 0

    def _pass_on(self, lines: bytes) -> None:
        if not lines:
            return
        *ended, last = lines.split(b"\n")
        for line in (*ended, last):
            pieces = [piece for piece in line.split(b"\r") if piece.strip()]
            for piece in pieces:
                self.tail.append(piece[-LONGEST_SHOWN:])
                if self._needle in piece and not self._is_over:
                    self._lines.put(Line(piece.strip(), time.time(), self._is_in_bar or len(pieces) > 1))
            self._is_in_bar = False
        self._is_in_bar = last.endswith(b"\r")
        for shown in reversed(self.tail):
            if not NO_REASON.fullmatch(shown):
                self.last = _shown(shown)
                break


def _shown(line: bytes) -> str:
    return escaped(as_lines(line.strip()[-LAST:].decode("utf-8", "replace")))


def _advice(error: OSError, program: Path) -> str:
    if error.errno == errno.E2BIG:
        return "write the long value into a file, or let the script read all values from the file {plat.config}"
    if isinstance(error, PermissionError):
        return "make the file executable (chmod +x), or name its interpreter first: bash run.sh"
    if isinstance(error, FileNotFoundError) and program.is_file():
        with program.open("rb") as file:
            if file.readline(CHUNK).endswith(b"\r\n"):
                return f"{program.name} has the line ends of Windows: sed -i 's/\\r$//' {program.name}"
        return f"the first line of {program.name} names an interpreter that is not here: correct it, or install that"
    if isinstance(error, FileNotFoundError):
        return "check the first word of script.command, and script.folder"
    if program.is_file():
        return "begin it with a line such as #!/bin/sh, or name its interpreter first: bash run.sh"
    return "check script.command"
