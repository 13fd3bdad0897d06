"""The JSON files of a run directory, read so that none is believed that is damaged or of another run.

What carries or decides a result names its run: meta.json and result.json as `id`; attempt.json, outcome.json and every
line of events.jsonl as `run`. The name of the directory says which run that must be. The first two of the attempt's
files name the attempt, too. All of them have a checksum.

Older runs lack some of it. `meta.json` says what can be asked of a run:

    identity_scheme  from CHECKED_SCHEME on, every file has a checksum (plat 0.1 wrote none)
    format           from NAMED_FORMAT on, every file names its run; result.json has the number of events of each
                     attempt, and meta.json the hashes of code.txt and code.diff
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from plat.plain_files import read_bytes
from plat.store.durable import load_json
from plat.store.run_directory.paths import RunPaths
from plat.store.run_directory.types import META, Type, wrong_type

FORMAT = 3  # of the files of new run directories
NAMED_FORMAT = 3
CHECKED_SCHEME = 2  # of the identity

Content = dict[str, Any]


class Rules(NamedTuple):
    """What the files of a run must have: a checksum each, and the name of their run."""

    checked: bool = False
    named: bool = False


def rules_of(meta: Mapping[str, Any] | None) -> Rules:
    """The rules of a run with this meta.json, none at all when that cannot be read."""
    facts = meta or {}
    named = (facts.get("format") or 1) >= NAMED_FORMAT
    return Rules(named or "identity" in facts or (facts.get("identity_scheme") or 1) >= CHECKED_SCHEME, named)


def read_own_meta(paths: RunPaths) -> tuple[Content | None, str]:
    """meta.json and what is wrong with it: (content, ""), (None, problem), or (None, "") when there is none."""
    content, checked = load_json(paths.meta)
    wrong = _damage(paths.meta, content, META)
    if content is None or wrong:
        return None, wrong
    return _of_run(paths.meta, content, "id", paths, checked, rules_of(content))


def read_own(
    path: Path, run: RunPaths, types: Mapping[str, Type], *, key: str = "run", attempt: int | None = None
) -> tuple[Content | None, str]:
    """A JSON file of a run and what is wrong with it: (content, ""), (None, problem), or (None, "") when there is none.

    types    the types of its values
    key      under which it names its run
    attempt  the attempt that it must be of, if it names one
    """
    content, checked = load_json(path)
    wrong = _damage(path, content, types)
    if content is None or wrong:
        return None, wrong
    if attempt is not None and content.get("attempt") not in (None, attempt):
        return None, f"{path.name} is of attempt {content['attempt']}"
    if checked and key in content:
        return _of_run(path, content, key, run, checked, Rules())
    return _of_run(path, content, key, run, checked, rules_of(read_own_meta(run)[0]))  # an older run may lack either


def _damage(path: Path, content: Content | None, types: Mapping[str, Type]) -> str:
    """What is wrong with a file that holds this, whatever run it is of; "" when nothing is, or when there is none."""
    if content is None:
        return f"{path.name} is damaged" if os.path.lexists(path) else ""
    wrong = wrong_type(content, types)
    return f"{path.name} is damaged: {wrong}" if wrong else ""


def _of_run(
    path: Path, content: Content, key: str, run: RunPaths, checked: bool, rules: Rules
) -> tuple[Content | None, str]:
    named = content.get(key)
    if named is not None and named != run.id:
        return None, f"{path.name} is of run {named}"
    if rules.checked and not checked:
        return None, f"{path.name} is damaged: it has no checksum"
    if rules.named and named is None:
        return None, f"{path.name} is damaged: it does not name its run"
    return content, ""


def is_of_other(problem: str) -> bool:
    """Whether a problem says that a file, whole in itself, is of another run."""
    return " is of run " in problem


def hash_of(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def code_damage(paths: RunPaths, meta: Mapping[str, Any] | None) -> str:
    """Which of code.txt and code.diff is not the one whose hash is in meta.json, in one line; "" when none is."""
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
