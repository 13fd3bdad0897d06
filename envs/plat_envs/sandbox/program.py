"""What is run and what comes of it: a program, its tests, its limits, an outcome of each test, and a grade."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any, Literal

from plat_envs.environment_errors import check_range

# ok: it ended with exit code 0 within its limits. Only `ok` can pass.
Status = Literal["ok", "error", "cpu", "wall", "memory", "output", "killed"]
FENCE = re.compile(r"^[ \t]*(```+|~~~+)[ \t]*[\w+-]*[ \t]*\n(.*?)^[ \t]*\1[ \t]*$", flags=re.M | re.S)


@dataclass(frozen=True)
class Program:
    """Source text in Python. With `function`, its tests call this function; without, they give it stdin."""

    source: str
    function: str | None = None


@dataclass(frozen=True)
class Test:
    """Text on stdin, and the expected output. `tolerance`: numbers may differ by this share (1e-6)."""

    stdin: str
    expected: str
    tolerance: float | None = None
    __test__ = False  # no test of pytest


@dataclass(frozen=True)
class Call:
    """Arguments of the function, and its expected value; both are values of JSON."""

    arguments: list[Any]
    expected: Any
    tolerance: float | None = None


@dataclass(frozen=True)
class Limits:
    """What one test may use. `wall_seconds`: by default 4 times the processor time and 5 seconds.

    Raises BadEnvironment for a limit that is out of range.
    """

    cpu_seconds: float = 4.0
    wall_seconds: float | None = None
    memory_bytes: int = 1 << 30  # of address space
    output_bytes: int = 8 << 20
    file_bytes: int = 16 << 20
    files: int = 64
    threads: int = 64

    def __post_init__(self) -> None:
        check_range("cpu_seconds", self.cpu_seconds, 0.05, 3600)
        check_range("wall_seconds", self.wall, 0.05, 24 * 3600)
        check_range("memory_bytes", self.memory_bytes, 64 << 20, 1 << 40)
        check_range("output_bytes", self.output_bytes, 1, 1 << 30)
        check_range("file_bytes", self.file_bytes, 1 << 12, 1 << 40)
        check_range("files", self.files, 8, 1 << 16)
        check_range("threads", self.threads, 1, 1 << 15)

    @property
    def wall(self) -> float:
        """Return the seconds after which a test is ended, whatever it does."""
        return 4 * self.cpu_seconds + 5 if self.wall_seconds is None else self.wall_seconds


@dataclass(frozen=True)
class Outcome:
    """How one test ended. `stdout` of a function is its value as JSON; what it prints goes to `stderr`."""

    status: Status
    stdout: bytes = b""
    stderr: str = ""  # its end
    exit_code: int = 0  # negative: the signal that ended it
    cpu_seconds: float = 0.0
    wall_seconds: float = 0.0
    memory_bytes: int = 0


@dataclass(frozen=True)
class Grade:
    """Which tests a program passed."""

    passed: list[bool]
    outcomes: list[Outcome] = field(repr=False)

    @property
    def share(self) -> float:
        """Return the share of the tests that passed."""
        return sum(self.passed) / len(self.passed)


def unfence(text: str) -> str:
    """Return the last block between Markdown fences, or the whole text if it has none.

    >>> unfence("Here it is:\\n```python\\nprint(1)\\n```\\n")
    'print(1)\\n'
    """
    blocks = FENCE.findall(text)
    return str(blocks[-1][1]) if blocks else text
