"""Run `plat` in a process of its own, which is forked from one that has imported MLflow, pandas and matplotlib.

Importing them takes four seconds of processor time. A script, a plug-in or a trainer of a test is imported anew.
"""

from __future__ import annotations

import multiprocessing
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory

TESTS = str(Path(__file__).parent.parent)
_CONTEXT = multiprocessing.get_context("forkserver")
_CONTEXT.set_forkserver_preload(
    [
        "plat.cli",
        "mlflow.store.tracking.sqlalchemy_store",
        "pandas",
        "scipy.stats",
        "matplotlib.backends.backend_pdf",
        "matplotlib.backends.backend_svg",
        "matplotlib.backends.backend_agg",
    ]
)


def fresh_plat(
    *words: object, cwd: Path, env: Mapping[str, str] | None = None, timeout: float = 120
) -> subprocess.CompletedProcess[str]:
    """Return what `python -m plat WORDS` returns in a folder. `env`: the whole environment [that of this process]."""
    command = ["plat", *map(str, words)]
    with TemporaryDirectory() as folder:
        out, err = Path(folder, "out"), Path(folder, "err")
        arguments = (command, str(cwd), dict(os.environ if env is None else env), str(out), str(err))
        process = _CONTEXT.Process(target=_child, args=arguments)
        process.start()
        process.join(timeout)
        if process.exitcode is None:
            process.kill()
            process.join()
            raise subprocess.TimeoutExpired(command, timeout, out.read_bytes(), err.read_bytes())
        code = process.exitcode
        process.close()
        return subprocess.CompletedProcess(command, code, out.read_text(), err.read_text())


def _child(command: list[str], folder: str, environment: dict[str, str], out: str, err: str) -> None:
    for descriptor, path in ((1, out), (2, err)):
        opened = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        os.dup2(opened, descriptor)
        os.close(opened)
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    named = [entry for entry in environment.get("PYTHONPATH", "").split(os.pathsep) if entry]
    others = [entry for entry in sys.path if entry and not entry.startswith(TESTS) and entry not in named]
    sys.path[:] = [*named, *others]  # not the current folder: as `python -m plat`
    sys.argv[:] = command
    from plat.entry import main

    try:
        main()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
