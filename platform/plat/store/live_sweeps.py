"""Sweeps that are going on in a home, so that somebody else can take runs out of their queues.

A sweep keeps a folder `<home>/sweeps/<host>-<pid>-<random>/` for as long as it takes. Its sweep.json says which process
it is and which runs it has been given; a file `cancel-<run id>` beside it asks the sweep not to start that run.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import socket
from collections.abc import Iterable, Iterator
from pathlib import Path

from plat.store import process
from plat.store.durable import read_json, to_json, write
from plat.store.home import Home

CANCEL = "cancel-"


class LiveSweep:
    """The folder of one sweep, for the sweep itself. Where it cannot be written, nobody can ask for anything."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._runs: list[str] = []

    def give(self, run_ids: Iterable[str]) -> None:
        """Let others know that the sweep has been given these runs, too."""
        self._runs += run_ids
        with contextlib.suppress(OSError):
            self._folder.mkdir(parents=True, exist_ok=True)
            write(self._folder / "sweep.json", to_json({**process.this_process(), "runs": self._runs}), sync=False)

    def cancelled(self) -> list[str]:
        """The runs that somebody has asked not to start since the last call."""
        try:
            names = [name for name in os.listdir(self._folder) if name.startswith(CANCEL)]
        except OSError:
            return []
        for name in names:
            (self._folder / name).unlink(missing_ok=True)
        return [name.removeprefix(CANCEL) for name in names]


@contextlib.contextmanager
def announced(home: Home) -> Iterator[LiveSweep]:
    """Let others know, for the length of the block, that this process does a sweep. Forgets sweeps that were killed."""
    folder = home.sweeps / f"{socket.gethostname()}-{os.getpid()}-{secrets.token_hex(4)}"
    with contextlib.suppress(OSError):
        for other in home.sweeps.iterdir():
            if not _goes_on(other):
                shutil.rmtree(other, ignore_errors=True)
    sweep = LiveSweep(folder)
    sweep.give([])
    try:
        yield sweep
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        with contextlib.suppress(OSError):
            home.sweeps.rmdir()  # unless another sweep goes on


def ask_not_to_start(home: Home, run_ids: Iterable[str]) -> list[str]:
    """Ask the sweeps that go on not to start these runs; those of them that some sweep has been given."""
    wanted, asked = list(run_ids), []
    try:
        folders = [folder for folder in home.sweeps.iterdir() if _goes_on(folder)]
    except OSError:
        return []
    for folder in folders:
        given = set((read_json(folder / "sweep.json") or {}).get("runs") or ())
        for run_id in wanted:
            if run_id in given:
                with contextlib.suppress(OSError):  # the sweep has just ended
                    (folder / f"{CANCEL}{run_id}").touch()
                    asked.append(run_id)
    return list(dict.fromkeys(asked))


def _goes_on(folder: Path) -> bool:
    facts = read_json(folder / "sweep.json")
    return facts is not None and process.may_run(facts)
