"""Read the state of the git repository that tracks a source file.

A package that is installed inside a repository, but not tracked by it, does not belong to it.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

MOST_NAMES = 100  # most recorded names of changed files, and of untracked files


@dataclass(frozen=True)
class Repository:
    """The state of a checkout."""

    root: Path  # its top folder
    commit: str
    dirty: bool = False  # True if a file is changed or untracked, or git cannot tell
    untracked: tuple[str, ...] = ()  # names of files that are not in version control
    changed: tuple[str, ...] = ()  # names of files with uncommitted changes
    diff_sha256: str | None = None  # hash of the uncommitted changes as git prints them; None if there are none


def repository_of(source: Path, *, whole: bool) -> Repository | None:
    """Return the state of the repository that tracks a source file; None if none does, or if git fails.

    whole  find uncommitted changes in the whole repository; if False, only in the folder of the source file

    If git fails to list the changes within 20 s, `dirty` is True without names.
    """
    folder = source.parent
    answer = _git(folder, "rev-parse", "--show-toplevel", "HEAD")
    if answer is None or _git(folder, "ls-files", "--error-unmatch", "--", source.name) is None:
        return None
    root, commit = answer.splitlines()
    where = [] if whole else ["--", "."]
    listed = _git(folder, "status", "--porcelain", *where)
    status = [line for line in (listed or "").splitlines() if line]
    untracked = tuple(line[3:] for line in status if line.startswith("??"))
    changed = tuple(line[3:] for line in status if not line.startswith("??"))
    diff = ""
    if changed:
        diff = _git(folder, "diff", "HEAD", "--no-color", "--no-ext-diff", "--no-textconv", *where) or ""
    digest = hashlib.sha256(diff.encode(errors="surrogatepass")).hexdigest() if diff else None
    return Repository(
        Path(root),
        commit,
        listed is None or bool(status),
        untracked[:MOST_NAMES],
        changed[:MOST_NAMES],
        diff_sha256=digest,
    )


def _git(folder: Path, *arguments: str) -> str | None:
    """Return the output of a git command; None if it fails or takes more than 20 s."""
    # GIT_* is removed: variables like GIT_DIR would select another repository
    environment = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    command = ["git", "-C", str(folder), "-c", "core.fsmonitor=false", *arguments]
    try:
        done = subprocess.run(
            command, capture_output=True, timeout=20, env={**environment, "GIT_OPTIONAL_LOCKS": "0"}, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.decode(errors="replace")
