"""Read the JSON files of a run directory, and reject those that are damaged or of another run.

Each has a checksum and names its run, which must be the name of the directory: meta.json and result.json as `id`,
attempt.json, outcome.json and every line of events.jsonl as `run`. attempt.json and outcome.json name their attempt,
too. result.json has the number of events of each attempt, and meta.json the hashes of code.txt and code.diff.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from plat.plain_files import read_bytes
from plat.store.disk.durable import load_json
from plat.store.run_directory.paths import RunPaths
from plat.store.run_directory.types import Type, wrong_type

FORMAT = 3  # of the files of a run directory; its meta.json has the number


_SWEEP = "`plat sweep` of the experiment file (or the same `plat run`)"
_ASIDE = f"{_SWEEP} sets it aside and resumes from the newest checkpoint"
_OTHERWISE = "or remove the run's directory and sweep again"
_CODE = f"restore the recorded file from a copy or from the run's artifacts in MLflow, {_OTHERWISE}"
CONFIG_FIX = f"{_SWEEP} writes it again; to change a run, change the experiment file"
_FIXES = {
    "config.yaml": CONFIG_FIX,
    "meta.json": f"{_SWEEP} writes it again",
    "result.json": _ASIDE,
    "outcome.json": f"remove the run's result.json, then {_ASIDE}",
    "code.txt": _CODE,
    "code.diff": _CODE,
}


@dataclass(frozen=True)
class Damage:
    """What is wrong in a run's directory. `str` gives one line."""

    problem: str  # e.g. "line 2 is damaged"
    file: str = ""  # path in the directory; "" if several files disagree
    foreign: bool = False  # the file was written for another run

    def __str__(self) -> str:
        return f"{self.file} {self.problem}".lstrip()

    @property
    def fix(self) -> str:
        """How to fix it, in words."""
        name = os.path.basename(self.file)
        if self.foreign and name != "result.json":
            return f"move what belongs to the other run back into that run's directory, {_OTHERWISE}"
        return _FIXES.get(name, "remove the run's directory and sweep again")


def read_own(
    path: Path, run: RunPaths, types: Mapping[str, Type], *, key: str = "run", attempt: int | None = None
) -> tuple[dict[str, Any] | None, Damage | None]:
    """Read a JSON file of a run: return (content, None), (None, damage), or (None, None) if there is no file.

    types    required types of its values
    key      the key whose value is the id of the run
    attempt  required attempt number, if the file has one
    """

    def damage(problem: str, foreign: bool = False) -> tuple[None, Damage]:
        return None, Damage(problem, str(path.relative_to(run.root)), foreign)

    content, has_checksum = load_json(path)
    if content is None:
        return damage("is damaged") if os.path.lexists(path) else (None, None)
    if wrong := wrong_type(content, types):
        return damage(f"is damaged: {wrong}")
    if attempt is not None and content.get("attempt", attempt) != attempt:
        return damage(f"is of attempt {content['attempt']}")
    named = content.get(key)
    if named not in (None, run.id):
        return damage(f"is of run {named}", foreign=True)
    if not has_checksum:
        return damage("is damaged: it has no checksum")
    return damage("is damaged: it does not name its run") if named is None else (content, None)


def hash_of(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def code_damage(paths: RunPaths, meta: Mapping[str, Any] | None) -> Damage | None:
    """Return how code.txt or code.diff differs from its hash in meta.json; None if neither does, or without hashes."""
    recorded = (meta or {}).get("files")
    if recorded is None:
        return None
    for path in (paths.code, paths.diff):
        try:
            found = hash_of(read_bytes(path)) if os.path.lexists(path) else None
        except OSError:
            return Damage("cannot be read", path.name)
        if found != recorded.get(path.name):
            return Damage("is not the one that was recorded: it was edited, damaged, added or removed", path.name)
    return None
