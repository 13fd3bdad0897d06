"""The state of the git repository that a piece of source code belongs to, if it belongs to one.

Source code belongs to a repository when git tracks it there: a package that was installed into a folder inside
somebody's repository does not. Variables like GIT_DIR, which would show git another repository, are not passed on.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

from plat.store.provenance.redaction import without_secrets

LARGEST_DIFF = 2_000_000  # characters
MOST_UNTRACKED = 100  # names that are recorded


@dataclass(frozen=True)
class Repository:
    """`diff` is what is uncommitted, without secrets; `untracked` are names only. `root` is the top folder."""

    root: Path
    commit: str
    dirty: bool = False
    untracked: tuple[str, ...] = ()
    diff: str = ""

    @property
    def diff_sha256(self) -> str | None:
        return hashlib.sha256(self.diff.encode(errors="surrogatepass")).hexdigest() if self.diff else None


def repository_of(source: Path, *, whole: bool) -> Repository | None:
    """The repository that tracks a source file; None when none does, or when git cannot be asked.

    whole  look at the whole repository for what is uncommitted, or at the folder of the source file only
    """
    folder = source.parent
    answer = _git(folder, "rev-parse", "--show-toplevel", "HEAD")
    if answer is None or _git(folder, "ls-files", "--error-unmatch", "--", source.name) is None:
        return None
    root, commit = answer.splitlines()
    where = [] if whole else ["--", "."]
    status = [line for line in (_git(folder, "status", "--porcelain", *where) or "").splitlines() if line]
    untracked = tuple(line[3:] for line in status if line.startswith("??"))
    diff = ""
    if len(untracked) < len(status):
        diff = _git(folder, "diff", "HEAD", "--no-color", "--no-ext-diff", "--no-textconv", *where) or ""
        if len(diff) > LARGEST_DIFF:
            diff = diff[:LARGEST_DIFF] + "\n[cut: the diff is longer than this]\n"
    return Repository(Path(root), commit, bool(status), untracked[:MOST_UNTRACKED], without_secrets(diff))


def _git(folder: Path, *arguments: str) -> str | None:
    """What git prints, None when it fails."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    command = ["git", "-C", str(folder), "-c", "core.fsmonitor=false", *arguments]
    try:
        done = subprocess.run(
            command, capture_output=True, timeout=20, env={**environment, "GIT_OPTIONAL_LOCKS": "0"}, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.decode(errors="replace")
