"""Record the code of a run: version, commit and uncommitted changes of plat and of every plug-in package.

The commit of a script's run is that of the script's repository. For other runs, plat's commit and changes are recorded
only if the running code is a checkout of plat, not if it was installed from a wheel, even inside another repository. A
plug-in's changes are those below its own folder.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import platform
import subprocess
import tomllib
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from functools import lru_cache
from importlib.metadata import PackageNotFoundError, entry_points, version
from pathlib import Path
from typing import Any

from plat.plugins.loading import groups

# Read the state of the git repository that tracks a source file.
#
# A package that is installed inside a repository, but not tracked by it, does not belong to it.

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


PACKAGES = (
    "plat", "torch", "numpy", "verl", "transformers", "tokenizers", "safetensors", "gymnasium", "datasets",
    "hydra-core", "omegaconf", "mlflow", "ray", "pandas", "scipy",
)  # fmt: skip


@dataclass(frozen=True)
class PlugIn:
    """A package that publishes plug-ins; `repository` tracks its source, None if no repository does."""

    package: str
    version: str
    repository: Repository | None = None

    def facts(self) -> dict[str, Any]:
        facts: dict[str, Any] = {"package": self.package, "version": self.version}
        if self.repository is not None:
            changes = {"dirty": self.repository.dirty, "diff_sha256": self.repository.diff_sha256}
            facts |= {"commit": self.repository.commit, **changes}
        return facts


def version_with_commit() -> str:
    """Return plat's version, with the commit where plat runs from a checkout: `0.4.0 (commit 1a2b3c4d, changed)`."""
    import plat

    repository = repository_of(Path(plat.__file__), whole=True)
    if repository is None:
        return plat.__version__
    return f"{plat.__version__} (commit {repository.commit[:8]}{', changed' if repository.dirty else ''})"


@dataclass(frozen=True)
class CodeState:
    """The state of the code: versions by package, plug-ins, and the repository of plat, or of the run's script."""

    repository: Repository | None = None
    versions: dict[str, str] = field(default_factory=dict)
    plug_ins: tuple[PlugIn, ...] = ()
    none: str = "not a checkout of plat"  # why there is no repository

    def text(self) -> str:
        """Return the content of code.txt: `key: value` lines, `package==version` lines, then the plug-ins."""
        if self.repository is None:
            lines = [f"commit: none ({self.none})", "dirty: false"]
        else:
            lines = [f"commit: {self.repository.commit}", f"dirty: {str(self.repository.dirty).lower()}"]
            lines += [f"changed: {name}" for name in self.repository.changed]
            lines += [f"untracked: {name}" for name in self.repository.untracked]
        lines += [f"{name}=={number}" for name, number in self.versions.items()]
        for plug_in in self.plug_ins:
            facts = plug_in.facts()
            lines.append(f"plug-in: {' '.join(f'{key}={value}' for key, value in facts.items() if value is not None)}")
            changed = plug_in.repository.changed if plug_in.repository is not None else ()
            lines += [f"changed: {plug_in.package}: {name}" for name in changed]
        return "\n".join(lines) + "\n"

    def facts(self) -> dict[str, Any]:
        """Return the facts for meta.json and the tags in MLflow: hashes of changes, never their text."""
        return {
            "commit": self.repository.commit if self.repository else None,
            "dirty": self.repository is not None and self.repository.dirty,
            "versions": dict(self.versions),
            "diff_sha256": self.repository.diff_sha256 if self.repository else None,
            "plug_ins": [plug_in.facts() for plug_in in self.plug_ins],
        }


_remembered = lru_cache(maxsize=64)(repository_of)


@lru_cache(maxsize=4)  # git takes longer than the start of a run; a sweep collects this in the parent process
def collect(source: Path | None = None) -> CodeState:
    """Return the state of plat's code and plug-ins, read once per process; `source` is one of plat's source files."""
    repository = repository_of(source or Path(__file__), whole=True)
    if repository is not None and not _is_plat(repository.root):
        repository = None
    return CodeState(repository, _versions(), tuple(_plug_ins()))


def of_file(code: CodeState, file: Path) -> CodeState:
    """Return the same with the repository of a script in place of that of plat."""
    return replace(code, repository=_remembered(file, whole=True), none="the script is in no git repository")


def _versions() -> dict[str, str]:
    versions = {"python": platform.python_version()}
    for name in PACKAGES:
        try:
            versions[name] = version(name)
        except PackageNotFoundError:
            continue
    return versions


def _is_plat(root: Path) -> bool:
    """Return True if the repository's pyproject.toml is that of plat."""
    try:
        project = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8")).get("project")
    except (OSError, ValueError):
        return False
    return isinstance(project, dict) and project.get("name") == "plat"


def _plug_ins() -> Iterable[PlugIn]:
    """Yield every other package that publishes entry points of plat, by name. Imports none of them."""
    modules: dict[str, tuple[str, str]] = {}  # package -> (version, one of its modules)
    for group in groups():
        for point in entry_points(group=group):
            if point.dist is not None and point.dist.name != "plat":
                modules.setdefault(point.dist.name, (point.dist.version, point.module.partition(".")[0]))
    for package in sorted(modules):
        number, module = modules[package]
        source = _source(module)
        yield PlugIn(package, number, repository_of(source, whole=False) if source else None)


def _source(module: str) -> Path | None:
    """Return the source file of a top-level module or package, or None."""
    try:
        spec = importlib.util.find_spec(module)
    except (ImportError, ValueError):
        return None
    return Path(spec.origin) if spec is not None and spec.origin and Path(spec.origin).is_file() else None
