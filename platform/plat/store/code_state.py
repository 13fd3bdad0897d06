"""What code a run was made with: git commit, package versions, uncommitted changes with secrets taken out.

Collected once per process (a sweep collects it in the parent), because asking git takes longer than starting a run.
"""

from __future__ import annotations

import os
import platform
import re
import subprocess
from dataclasses import dataclass, field
from functools import lru_cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

PACKAGES = (
    "plat", "torch", "numpy", "verl", "transformers", "tokenizers", "safetensors", "gymnasium", "datasets",
    "hydra-core", "omegaconf", "mlflow", "ray", "pandas", "scipy",
)  # fmt: skip
LARGEST_DIFF = 2_000_000  # characters
SECRET = "<redacted>"
_PATTERNS = (
    re.compile(r"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)", re.S),
    re.compile(r"\b(?:ghp|gho|ghu|ghs|ghr|github_pat|glpat|hf|sk|pk|xox[abprs])[-_][A-Za-z0-9_-]{16,}"),
    re.compile(r"\b(?:AKIA|ASIA)[A-Z0-9]{16}\b"),
    re.compile(r"\beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]+"),
    re.compile(r"(?<=://)[^/\s:@]+:[^/\s@]+(?=@)"),
    re.compile(
        r"(?i)(?P<key>[\w-]*(?:passw(?:or)?d|passphrase|secret|token|api[_-]?key|access[_-]?key|credential)s?"
        r"[\"']?\s*[:=]\s*)(?P<value>\"[^\"\n]{6,}\"|'[^'\n]{6,}'|(?=\S*\d)[^\s\"',;(){}\[\]]{8,})"
    ),
)


@dataclass(frozen=True)
class CodeState:
    """`commit` is None outside a git checkout; `diff` is empty when nothing is uncommitted."""

    commit: str | None
    dirty: bool
    versions: dict[str, str] = field(default_factory=dict)
    untracked: tuple[str, ...] = ()
    diff: str = ""

    def text(self) -> str:
        """The content of code.txt: `key: value` lines, then `package==version` lines."""
        lines = [f"commit: {self.commit or 'none (not a git checkout)'}", f"dirty: {str(self.dirty).lower()}"]
        lines += [f"untracked: {name}" for name in self.untracked]
        lines += [f"{name}=={number}" for name, number in self.versions.items()]
        return "\n".join(lines) + "\n"

    def facts(self) -> dict:
        """The part that goes into meta.json and, as tags, into the store."""
        return {"commit": self.commit, "dirty": self.dirty, "versions": dict(self.versions)}


def redact(text: str) -> str:
    """The text with everything that looks like a secret replaced."""
    for pattern in _PATTERNS:
        if "key" in pattern.groupindex:
            text = pattern.sub(lambda found: found["key"] + SECRET, text)
        else:
            text = pattern.sub(SECRET, text)
    return text


@lru_cache(maxsize=4)
def collect(folder: Path | None = None) -> CodeState:
    """The state of the checkout around `folder` (default: where plat's own source lies)."""
    place = folder or Path(__file__).parent
    versions = {"python": platform.python_version()}
    for name in PACKAGES:
        try:
            versions[name] = version(name)
        except PackageNotFoundError:
            continue
    commit = _git(place, "rev-parse", "HEAD")
    if commit is None:
        return CodeState(None, False, versions)
    status = [line for line in (_git(place, "status", "--porcelain") or "").splitlines() if line]
    untracked = tuple(line[3:] for line in status if line.startswith("??"))[:100]
    diff = ""
    if len(untracked) < len(status):
        diff = redact(_git(place, "diff", "HEAD", "--no-color", "--no-ext-diff") or "")
        if len(diff) > LARGEST_DIFF:
            diff = diff[:LARGEST_DIFF] + "\n[cut: the diff is longer than this]\n"
    return CodeState(commit.strip(), bool(status), versions, untracked, diff)


def _git(place: Path, *arguments: str) -> str | None:
    environment = {**os.environ, "GIT_OPTIONAL_LOCKS": "0"}
    try:
        done = subprocess.run(
            ["git", "-C", str(place), *arguments], capture_output=True, timeout=20, env=environment, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.decode(errors="replace")
