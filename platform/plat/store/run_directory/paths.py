"""Define every file name in the directory of a run, runs/<ab>/<id>/. No other module does.

<run>/
    config.yaml  meta.json        its config and description
    code.txt  code.diff           the code that made it
    lease.json  lease.lock        the process that works on it
    cancel                        a request to cancel or prune it
    attempts/001/                 one attempt (AttemptPaths)
    files/                        files of a trainer's own, such as those that a script writes; plat reads none
    result.json                   the result of a done run
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

ATTEMPTS = "attempts"  # the folder of a run's attempts
_ATTEMPT = re.compile(r"[0-9]+")


class _Rooted(Protocol):
    @property
    def root(self) -> Path: ...


class Below:
    """A class attribute that, read on an instance, is the path `<instance>.root / name`."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __get__(self, owner: _Rooted, kind: type | None = None) -> Path:
        return owner.root / self._name


@dataclass(frozen=True)
class AttemptPaths:
    """One attempt's folder: attempts/001/."""

    root: Path

    events = Below("events.jsonl")
    log = Below("log.txt")
    checkpoints = Below("checkpoints")
    artifacts = Below("artifacts")
    outcome = Below("outcome.json")
    status = Below("status.txt")  # text: the activity of the attempt before its first event (see `RunIO.status`)
    alive = Below("alive")  # touched while it makes progress between two events (`plat.trainer.heartbeat`)
    # JSON: run, attempt, host, boot_id, pid, hardware, restored_step, facts (see `RunIO.facts`), time
    meta = Below("attempt.json")

    @property
    def run(self) -> RunPaths:
        """The run that the attempt belongs to."""
        return RunPaths(self.root.parent.parent)

    @property
    def number(self) -> int:
        return int(self.root.name)


@dataclass(frozen=True)
class RunPaths:
    """One run's folder: runs/<ab>/<id>/."""

    root: Path

    config = Below("config.yaml")
    meta = Below("meta.json")  # `plat.store.run_directory.types.META` has its keys and their types
    code = Below("code.txt")
    diff = Below("code.diff")
    lease = Below("lease.json")
    lock = Below("lease.lock")  # its process locks it (flock) until it ends; never deleted
    cancel = Below("cancel")  # exists while the run is asked to stop, by `plat cancel` or by a search that prunes it
    files = Below("files")  # see `RunIO.files`
    result = Below("result.json")

    @property
    def id(self) -> str:
        return self.root.name

    def attempt(self, number: int) -> AttemptPaths:
        return AttemptPaths(self.root / ATTEMPTS / f"{number:03d}")

    def attempts(self) -> list[AttemptPaths]:
        """Return all attempts, the oldest first."""
        folder = self.root / ATTEMPTS
        if not folder.is_dir():
            return []
        return sorted(
            (AttemptPaths(path) for path in folder.iterdir() if _ATTEMPT.fullmatch(path.name)),
            key=lambda attempt: attempt.number,
        )


def run_of(path: Path) -> str | None:
    """Return the id of the run that a file of an attempt belongs to, from its path: `<id>/attempts/001/...`.

    Returns None outside a run directory.
    """
    folders = path.absolute().parts
    after = next((at for at in range(len(folders) - 2, 0, -1) if folders[at] == ATTEMPTS), 0)
    return folders[after - 1] if after and _ATTEMPT.fullmatch(folders[after + 1]) else None
