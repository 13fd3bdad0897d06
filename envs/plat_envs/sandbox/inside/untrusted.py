"""Execute the program in a process that has given up its rights. Nothing here decides whether it is right."""

from __future__ import annotations

import atexit
import builtins
import gc
import json
import os
import sys
import threading
import types
from typing import IO, Any

NAME = "program.py"
LEAVE = os._exit  # kept, as the program may replace it


def execute(source: str, function: str | None) -> None:
    """Execute the program on descriptors 0, 1 and 2; with a function, call it with the arguments on descriptor 0.

    The function's value is written to descriptor 3 as JSON. The parent compares it, so a program that writes there
    itself has to know the answer. Never returns.
    """
    code = 0
    streams = _open_streams()
    module = types.ModuleType("program" if function else "__main__")
    try:
        arguments = json.loads(sys.stdin.buffer.read()) if function else []
        module.__file__ = NAME
        sys.modules[module.__name__] = module
        sys.argv = [NAME]
        exec(compile(source, NAME, "exec", dont_inherit=True), module.__dict__)
        if function:
            value = _find(module, function)(*arguments)
            with open(3, "w", encoding="utf-8") as result:
                result.write(json.dumps(value))
    except SystemExit as stop:
        code = _code_of(stop.code)
    except BaseException as error:
        _show(error)
        code = 1
    _end(code, module, streams)


def _end(code: int, module: types.ModuleType, streams: list[IO[str]]) -> None:
    """End the process as an interpreter ends, only without freeing its own memory, which would take longer."""
    try:
        threading._shutdown()  # type: ignore[attr-defined]  # waits for threads
        atexit._run_exitfuncs()
        _flush([sys.stdout, sys.stderr])
        module.__dict__.clear()  # closes files that the program left open
        gc.collect()
        _flush(streams)
    except BaseException:
        code = code or 120  # as the interpreter does if it cannot flush
    finally:
        LEAVE(code)


def _flush(streams: list[IO[str]]) -> None:
    for stream in streams:
        if stream is not None and not getattr(stream, "closed", False):
            stream.flush()


def _code_of(code: object) -> int:
    if code is None or isinstance(code, int):
        return (code or 0) & 0xFF
    print(code, file=sys.stderr)
    return 1


def _find(module: types.ModuleType, function: str) -> Any:
    """Return the function, or the method of an object of the class `Solution`."""
    if hasattr(module, function) or not hasattr(module, "Solution"):
        return getattr(module, function)
    return getattr(module.Solution(), function)


def _open_streams() -> list[IO[str]]:
    """Give the program the streams of a new interpreter. Returns stdout and stderr."""
    options: dict[str, Any] = {"encoding": "utf-8", "errors": "surrogateescape", "closefd": False}
    out = open(1, "w", **options)
    error = open(2, "w", buffering=1, **{**options, "errors": "backslashreplace"})
    sys.stdin = sys.__stdin__ = open(0, **options)  # type: ignore[misc]
    sys.stdout = sys.__stdout__ = out  # type: ignore[misc]
    sys.stderr = sys.__stderr__ = error  # type: ignore[misc]
    return [out, error]


def add_exit() -> None:
    """Add the builtins `exit` and `quit`, which the module `site` would add."""
    import _sitebuiltins

    for name in ("exit", "quit"):
        setattr(builtins, name, _sitebuiltins.Quitter(name, "Ctrl-D (i.e. EOF)"))


def _show(error: BaseException) -> None:
    """Print an error without the frames of the launcher. One that no line of the program raised has no frame at all."""
    trace = error.__traceback__
    while trace is not None and trace.tb_frame.f_code.co_filename != NAME:
        trace = trace.tb_next
    sys.excepthook(type(error), error.with_traceback(trace), trace)


def leave_no_trace(root: str) -> None:
    """Forget the modules of the launcher, so that the program finds a plain interpreter."""
    sys.path = [folder for folder in sys.path if folder != root]
    for name in [name for name in sys.modules if name.partition(".")[0] == "plat_envs"]:
        del sys.modules[name]
    os.environ.pop("PYTHONHASHSEED", None)
