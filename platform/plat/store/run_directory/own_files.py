"""Read the JSON files of a run directory, and reject those that are damaged or of another run.

Each has a checksum and names its run, which must be the name of the directory: meta.json and result.json as `id`,
attempt.json, outcome.json and every line of events.jsonl as `run`. attempt.json and outcome.json name their attempt,
too. result.json has the number of events of each attempt, and meta.json the hashes of code.txt and code.diff.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from plat.plain_files import read_bytes
from plat.store.disk.durable import load_json
from plat.store.run_directory.paths import RunPaths
from plat.store.run_directory.types import Type, wrong_type

FORMAT = 3  # of the files of a run directory; its meta.json has the number


def read_own(
    path: Path, run: RunPaths, types: Mapping[str, Type], *, key: str = "run", attempt: int | None = None
) -> tuple[dict[str, Any] | None, str]:
    """Read a JSON file of a run: return (content, ""), (None, problem), or (None, "") if there is no file.

    types    required types of its values
    key      the key whose value is the id of the run
    attempt  required attempt number, if the file has one
    """
    content, has_checksum = load_json(path)
    if content is None:
        return None, f"{path.name} is damaged" if os.path.lexists(path) else ""
    if wrong := wrong_type(content, types):
        return None, f"{path.name} is damaged: {wrong}"
    if attempt is not None and content.get("attempt", attempt) != attempt:
        return None, f"{path.name} is of attempt {content['attempt']}"
    named = content.get(key)
    if named not in (None, run.id):
        return None, f"{path.name} is of run {named}"
    if not has_checksum:
        return None, f"{path.name} is damaged: it has no checksum"
    return (None, f"{path.name} is damaged: it does not name its run") if named is None else (content, "")


def is_of_other(problem: str) -> bool:
    """Return True if `problem` says "<file> is of run <id>": the file was written for another run."""
    return " is of run " in problem


def hash_of(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def code_damage(paths: RunPaths, meta: Mapping[str, Any] | None) -> str:
    """Describe how code.txt or code.diff differs from its hash in meta.json; "" if neither does, or without hashes."""
    recorded = (meta or {}).get("files")
    if recorded is None:
        return ""
    for path in (paths.code, paths.diff):
        try:
            found = hash_of(read_bytes(path)) if os.path.lexists(path) else None
        except OSError:
            return f"{path.name} cannot be read"
        if found != recorded.get(path.name):
            return f"{path.name} is not the one that was recorded: it was edited, damaged, added or removed"
    return ""
