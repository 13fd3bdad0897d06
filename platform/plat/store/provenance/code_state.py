"""What code a run was made with: plat's version, commit and uncommitted changes, and the same of every plug-in package.

plat's commit and changes are recorded only when the running code is a checkout of plat: installed from a wheel, plat is
told by its version, whatever repository the installation lies in. A plug-in's changes are those below its own folder.
Collected once per process (a sweep collects it in the parent), because asking git takes longer than starting a run.
"""

from __future__ import annotations

import importlib.util
import platform
import tomllib
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import lru_cache
from importlib.metadata import PackageNotFoundError, entry_points, version
from pathlib import Path
from typing import Any

from plat.store.provenance.repository import Repository, repository_of

PACKAGES = (
    "plat", "torch", "numpy", "verl", "transformers", "tokenizers", "safetensors", "gymnasium", "datasets",
    "hydra-core", "omegaconf", "mlflow", "ray", "pandas", "scipy",
)  # fmt: skip
GROUPS = ("plat.trainers", "plat.environments", "plat.reports", "plat.claims")


@dataclass(frozen=True)
class PlugIn:
    """A package that publishes plug-ins, and the repository that tracks its source, if one does."""

    package: str
    version: str
    repository: Repository | None = None

    def facts(self) -> dict[str, Any]:
        facts: dict[str, Any] = {"package": self.package, "version": self.version}
        if self.repository is not None:
            changes = {"dirty": self.repository.dirty, "diff_sha256": self.repository.diff_sha256}
            facts |= {"commit": self.repository.commit, **changes}
        return facts

    @property
    def changed(self) -> tuple[str, ...]:
        return self.repository.changed if self.repository is not None else ()


@dataclass(frozen=True)
class CodeState:
    """`commit` is None when plat does not run from its own checkout; the others are as in `Repository`."""

    commit: str | None
    dirty: bool
    versions: dict[str, str] = field(default_factory=dict)
    untracked: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    diff_sha256: str | None = None
    diff: str = ""
    plug_ins: tuple[PlugIn, ...] = ()

    def text(self) -> str:
        """The content of code.txt: `key: value` lines, then `package==version` lines."""
        lines = [f"commit: {self.commit or 'none (not a checkout of plat)'}", f"dirty: {str(self.dirty).lower()}"]
        lines += [f"changed: {name}" for name in self.changed]
        lines += [f"untracked: {name}" for name in self.untracked]
        lines += [f"{name}=={number}" for name, number in self.versions.items()]
        for plug_in in self.plug_ins:
            facts = plug_in.facts()
            lines.append(f"plug-in: {' '.join(f'{key}={value}' for key, value in facts.items() if value is not None)}")
            lines += [f"changed: {plug_in.package}: {name}" for name in plug_in.changed]
        return "\n".join(lines) + "\n"

    def facts(self) -> dict[str, Any]:
        """The part that goes into meta.json and, as tags, into the store: hashes of changes, never their text."""
        return {
            "commit": self.commit,
            "dirty": self.dirty,
            "versions": dict(self.versions),
            "diff_sha256": self.diff_sha256,
            "plug_ins": [plug_in.facts() for plug_in in self.plug_ins],
        }

    def changes(self) -> str:
        """The content of code.diff: what is uncommitted in plat, and then in each plug-in under its name; "" unless
        it was asked for."""
        parts = [self.diff]
        for plug_in in self.plug_ins:
            if plug_in.repository is not None and plug_in.repository.diff:
                parts.append(f"# plug-in {plug_in.package}\n{plug_in.repository.diff}")
        return "".join(parts)


@lru_cache(maxsize=4)
def collect(source: Path | None = None) -> CodeState:
    """The state of plat's own code, and of the plug-ins that are installed; `source` is one of plat's source files."""
    repository = repository_of(source or Path(__file__), whole=True)
    plug_ins = tuple(_plug_ins())
    if repository is None or not _is_plat(repository.root):
        return CodeState(None, False, _versions(), plug_ins=plug_ins)
    return CodeState(
        repository.commit,
        repository.dirty,
        _versions(),
        repository.untracked,
        repository.changed,
        repository.diff_sha256,
        repository.diff,
        plug_ins,
    )


def _versions() -> dict[str, str]:
    versions = {"python": platform.python_version()}
    for name in PACKAGES:
        try:
            versions[name] = version(name)
        except PackageNotFoundError:
            continue
    return versions


def _is_plat(root: Path) -> bool:
    """Whether a repository is plat's own, and not one that plat was copied into."""
    try:
        project = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8")).get("project")
    except (OSError, ValueError):
        return False
    return isinstance(project, dict) and project.get("name") == "plat"


def _plug_ins() -> Iterable[PlugIn]:
    """Every other package that publishes something for plat, by name. Imports none of them."""
    modules: dict[str, tuple[str, str]] = {}  # package -> (version, one of its modules)
    for group in GROUPS:
        for point in entry_points(group=group):
            if point.dist is not None and point.dist.name != "plat":
                modules.setdefault(point.dist.name, (point.dist.version, point.module.partition(".")[0]))
    for package in sorted(modules):
        number, module = modules[package]
        source = _source(module)
        yield PlugIn(package, number, repository_of(source, whole=False) if source else None)


def _source(module: str) -> Path | None:
    """The source file of a top-level module or package."""
    try:
        spec = importlib.util.find_spec(module)
    except (ImportError, ValueError):
        return None
    return Path(spec.origin) if spec is not None and spec.origin and Path(spec.origin).is_file() else None
