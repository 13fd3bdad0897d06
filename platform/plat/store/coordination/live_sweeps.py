"""Announce the active sweeps of a home, so that other processes can cancel runs in their queues.

An active sweep keeps a folder `<home>/sweeps/<host>-<pid>-<random>/`. sweep.json names its process and its runs; a file
`cancel-<run id>` asks the sweep not to start that run.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import socket
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from plat.processes import identification
from plat.store.disk.durable import read_json, to_json, write
from plat.store.home import Home

CANCEL = "cancel-"


class LiveSweep:
    """The folder of one sweep, for the sweep itself. If it cannot be written, cancel requests are lost."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._runs: list[str] = []

    def give(self, run_ids: Iterable[str]) -> None:
        """Announce additional runs of the sweep."""
        self._runs += run_ids
        with contextlib.suppress(OSError):
            self._folder.mkdir(parents=True, exist_ok=True)
            write(
                self._folder / "sweep.json", to_json({**identification.this_process(), "runs": self._runs}), sync=False
            )

    def cancelled(self) -> list[str]:
        """Return the ids of the runs that other processes have asked this sweep not to start, since the last call.

        A run may have started by then. Requests to stop a running run do not come this way.
        """
        try:
            names = [name for name in os.listdir(self._folder) if name.startswith(CANCEL)]
        except OSError:
            return []
        for name in names:
            (self._folder / name).unlink(missing_ok=True)
        return [name.removeprefix(CANCEL) for name in names]


@contextlib.contextmanager
def announced(home: Home) -> Iterator[LiveSweep]:
    """Announce a sweep of this process for the length of the block, and remove the folders of killed sweeps."""
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
            home.sweeps.rmdir()  # fails while another sweep is active


def ask_not_to_start(home: Home, run_ids: Iterable[str]) -> list[str]:
    """Ask the active sweeps not to start these runs; return the ids of those in such a sweep, started or not."""
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


def some_sweep_has(home: Home, run_ids: Iterable[str]) -> bool:
    """Return True if an active sweep on this home has one of these runs, started or not."""
    wanted = set(run_ids)
    with contextlib.suppress(OSError):
        for folder in home.sweeps.iterdir():
            if _goes_on(folder) and not wanted.isdisjoint((read_json(folder / "sweep.json") or {}).get("runs") or ()):
                return True
    return False


def _goes_on(folder: Path) -> bool:
    facts = read_json(folder / "sweep.json")
    return facts is not None and identification.may_run(facts)


# Define the results of a study, which `plat.search.following` computes and reports show.


@dataclass(frozen=True)
class Trial:
    """One trial."""

    number: int
    state: str  # complete | pruned | failed | unfinished
    params: Mapping[str, Any]
    # values of the objectives, in their order; of a pruned trial the last reported one; () if none
    values: tuple[float, ...]
    iterations: int  # training iterations of all its runs together
    reason: str  # why it was pruned or failed, else ""
    run_ids: tuple[str, ...]


@dataclass(frozen=True)
class Winner:
    """A winning trial in one objective, with its values in done runs."""

    trial: int
    objective: str
    maximize: bool
    searched: tuple[float, ...]  # values on the seeds of the search
    fresh: tuple[float, ...]  # values on fresh seeds
    run_ids: tuple[str, ...]
