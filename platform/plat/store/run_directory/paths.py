"""The single owner of every file name in the directory of a run, runs/<ab>/<id>/.

<run>/
    config.yaml  meta.json        what it is
    code.txt  code.diff           which code made it
    lease.json  lease.lock        who runs it now
    cancel                        while somebody asks it to stop for good
    submissions/001.json          to which task of a scheduler's job it was handed
    attempts/001/                 one attempt (AttemptPaths)
    result.json                   it is done
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

ATTEMPTS = "attempts"  # the folder in which the attempts of a run lie
_ATTEMPT = re.compile(r"[0-9]+")


@dataclass(frozen=True)
class AttemptPaths:
    """One attempt's folder: attempts/001/."""

    root: Path

    @property
    def run(self) -> RunPaths:
        """The run whose attempt it is."""
        return RunPaths(self.root.parent.parent)

    @property
    def number(self) -> int:
        return int(self.root.name)

    @property
    def events(self) -> Path:
        return self.root / "events.jsonl"

    @property
    def log(self) -> Path:
        return self.root / "log.txt"

    @property
    def checkpoints(self) -> Path:
        return self.root / "checkpoints"

    @property
    def artifacts(self) -> Path:
        return self.root / "artifacts"

    @property
    def outcome(self) -> Path:
        return self.root / "outcome.json"

    @property
    def status(self) -> Path:
        """What the attempt is doing before its first event, in words (see `RunIO.status`)."""
        return self.root / "status.txt"

    @property
    def alive(self) -> Path:
        """Touched by the attempt while it makes progress between two events (`plat.trainer.heartbeat`)."""
        return self.root / "alive"

    @property
    def meta(self) -> Path:
        """JSON: run, attempt, host, boot_id, pid, hardware, restored_step, facts (see `RunIO.facts`), time."""
        return self.root / "attempt.json"


@dataclass(frozen=True)
class RunPaths:
    """One run's folder: runs/<ab>/<id>/."""

    root: Path

    @property
    def id(self) -> str:
        return self.root.name

    @property
    def config(self) -> Path:
        return self.root / "config.yaml"

    @property
    def meta(self) -> Path:
        """JSON: id, format, identity (what it was hashed from), name, trainer, trainer_version, axes, experiments,
        fingerprint, paper, scale, code, files, created; their types are in `plat.store.run_directory.types`."""
        return self.root / "meta.json"

    @property
    def code(self) -> Path:
        return self.root / "code.txt"

    @property
    def diff(self) -> Path:
        return self.root / "code.diff"

    @property
    def lease(self) -> Path:
        return self.root / "lease.json"

    @property
    def lock(self) -> Path:
        """Locked (flock) by the process that runs this run, for as long as it lives. Never deleted."""
        return self.root / "lease.lock"

    @property
    def cancel(self) -> Path:
        """Exists while somebody asks the run to stop for good (`plat cancel`)."""
        return self.root / "cancel"

    @property
    def submissions(self) -> Path:
        """001.json, 002.json, ...: to which tasks of schedulers the run was handed (plat.store.submissions)."""
        return self.root / "submissions"

    @property
    def result(self) -> Path:
        return self.root / "result.json"

    def attempt(self, number: int) -> AttemptPaths:
        return AttemptPaths(self.root / ATTEMPTS / f"{number:03d}")

    def attempts(self) -> list[AttemptPaths]:
        """Every attempt so far, oldest first."""
        folder = self.root / ATTEMPTS
        if not folder.is_dir():
            return []
        return sorted(
            (AttemptPaths(path) for path in folder.iterdir() if _ATTEMPT.fullmatch(path.name)),
            key=lambda attempt: attempt.number,
        )


def run_of(path: Path) -> str | None:
    """The id of the run that a file of an attempt belongs to, from where it lies: `<id>/attempts/001/...`.

    None outside of a run directory.
    """
    folders = path.absolute().parts
    after = next((at for at in range(len(folders) - 2, 0, -1) if folders[at] == ATTEMPTS), 0)
    return folders[after - 1] if after and _ATTEMPT.fullmatch(folders[after + 1]) else None
