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
from plat.switches import is_on

LARGEST_DIFF = 2_000_000  # characters of text that are recorded
MOST_NAMES = 100  # of changed and of untracked files that are recorded
RECORD_DIFF = "PLAT_RECORD_DIFF"  # switched on: the text of changes is recorded, without the secrets that are found


@dataclass(frozen=True)
class Repository:
    """What git says of a checkout.

    root         its top folder
    changed      names of files with uncommitted changes; `untracked` those that are not in version control
    diff_sha256  of all uncommitted changes as git prints them; None when there are none
    diff         their text without the lines that may hold a secret; "" unless RECORD_DIFF asks for it
    """

    root: Path
    commit: str
    dirty: bool = False
    untracked: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    diff_sha256: str | None = None
    diff: str = ""


def repository_of(source: Path, *, whole: bool) -> Repository | None:
    """The repository that tracks a source file; None when none does, or when git cannot be asked.

    whole  look at the whole repository for what is uncommitted, or at the folder of the source file only
    """
    with_text, folder = is_on(RECORD_DIFF), source.parent
    answer = _git(folder, "rev-parse", "--show-toplevel", "HEAD")
    if answer is None or _git(folder, "ls-files", "--error-unmatch", "--", source.name) is None:
        return None
    root, commit = answer.splitlines()
    where = [] if whole else ["--", "."]
    status = [line for line in (_git(folder, "status", "--porcelain", *where) or "").splitlines() if line]
    untracked = tuple(line[3:] for line in status if line.startswith("??"))
    changed = tuple(line[3:] for line in status if not line.startswith("??"))
    diff = ""
    if changed:
        diff = _git(folder, "diff", "HEAD", "--no-color", "--no-ext-diff", "--no-textconv", *where) or ""
    digest = hashlib.sha256(diff.encode(errors="surrogatepass")).hexdigest() if diff else None
    text = _screened(diff) if with_text else ""
    return Repository(
        Path(root), commit, bool(status), untracked[:MOST_NAMES], changed[:MOST_NAMES], diff_sha256=digest, diff=text
    )


def _screened(diff: str) -> str:
    """The text of a diff that may be recorded."""
    if len(diff) > LARGEST_DIFF:
        diff = diff[:LARGEST_DIFF] + "\n[cut: the diff is longer than this]\n"
    return without_secrets(diff)


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
