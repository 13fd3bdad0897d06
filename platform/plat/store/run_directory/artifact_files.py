"""Save and check artifacts: files of any size, such as a trained model, in `attempts/001/artifacts/<name>/`.

The folder holds `files/` and `manifest.json`. A folder not named `.tmp-...` is complete: it gets its name by a rename
after its files are on disk. The hash of an artifact is a fact of its attempt (`artifact/<name>`), so result.json and
bundles contain it; bundles do not contain the files. In a done run only the artifacts of the attempt that made the
result count.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from plat.errors import RunError
from plat.store.disk.durable import fsync_folder, read_json, replacing, to_checked_json, write_file
from plat.store.run_directory import folder_manifest
from plat.store.run_directory.paths import AttemptPaths, RunPaths
from plat.store.run_directory.run_files import read_result
from plat.trainer.api import WriteFiles

FILES, MANIFEST = "files", "manifest.json"
FACT = "artifact/"  # prefix of the names of facts that record an artifact
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,99}")


@dataclass(frozen=True)
class Artifact:
    """One artifact of an attempt: its folder, the number and total size of its files, the hash of its manifest."""

    path: Path
    files: int
    bytes: int
    sha256: str


def save_artifact(attempt: AttemptPaths, name: str, write_files: WriteFiles) -> Artifact:
    """Save an artifact durably, in place of an earlier one of this name.

    `write_files` gets an empty folder and writes the files into it. Raises RunError for an invalid name, and for
    entries that are neither files nor folders.
    """
    if not _NAME.fullmatch(name):
        raise RunError(
            f"{name!r} cannot be the name of an artifact",
            fix="use letters, digits, underscores, and after the first character dots and hyphens",
        )
    target = attempt.artifacts / name
    with replacing(target) as scratch:
        (scratch / FILES).mkdir(parents=True)
        write_files(scratch / FILES)
        sealed = folder_manifest.seal(scratch / FILES)
        write_file(scratch / MANIFEST, to_checked_json({"files": sealed}))
        fsync_folder(scratch)
    return _artifact(target, sealed)


def artifacts_of(attempt: AttemptPaths) -> dict[str, Artifact]:
    """Return name -> artifact as its manifest describes it, without artifacts whose manifest is damaged."""
    described = {}
    for name in artifact_folders(attempt):
        sealed = _read_manifest(attempt.artifacts / name)
        if sealed is not None:
            described[name] = _artifact(attempt.artifacts / name, sealed)
    return described


def artifact_folders(attempt: AttemptPaths) -> list[str]:
    """Return the sorted names of an attempt's artifacts, including damaged ones."""
    try:
        return sorted(name for name in os.listdir(attempt.artifacts) if _NAME.fullmatch(name))
    except OSError:
        return []


def damage(path: Path) -> str:
    """Hash the files of the artifact in the folder `path`, and describe its damage; "" if there is none."""
    sealed = _read_manifest(path)
    return f"{MANIFEST} is missing or damaged" if sealed is None else folder_manifest.damage(path / FILES, sealed)


def _read_manifest(path: Path) -> folder_manifest.Manifest | None:
    sealed = (read_json(path / MANIFEST) or {}).get("files")
    return sealed if isinstance(sealed, dict) else None


def _artifact(path: Path, sealed: folder_manifest.Manifest) -> Artifact:
    content = json.dumps(sealed, sort_keys=True).encode()
    size = sum(facts["bytes"] for facts in sealed.values())
    return Artifact(path, len(sealed), size, hashlib.sha256(content).hexdigest())


# --- checking those of done runs ------------------------------------------------------------------------------------


@dataclass
class ArtifactCheck:
    """The findings of a check.

    artifacts, bytes   number and size of the artifacts of runs without a damaged one
    damaged            run id -> problem of its first damaged artifact
    absent             ids of runs whose result names an artifact that is not in this home
    """

    artifacts: int = 0
    bytes: int = 0
    damaged: dict[str, str] = field(default_factory=dict)
    absent: list[str] = field(default_factory=list)


def check_artifacts(runs: Iterable[RunPaths]) -> ArtifactCheck:
    """Hash every file of every artifact of the done runs among these (`plat doctor --deep`). Changes nothing.

    Only artifacts of the attempt that made the result count. They may be absent: bundles hold only their hashes.
    """
    check = ArtifactCheck()
    for run in runs:
        result = read_result(run)
        if result is None or not isinstance(result.get("attempt"), int):
            continue
        attempt = run.attempt(result["attempt"])
        summary = result.get("summary") or {}
        recorded = {name.removeprefix(FACT): value for name, value in summary.items() if name.startswith(FACT)}
        kept = artifacts_of(attempt)
        for name in artifact_folders(attempt):
            problem = damage(attempt.artifacts / name)
            if not problem and recorded.get(name, kept[name].sha256) != kept[name].sha256:
                problem = "it is not the one whose hash the result names"
            if problem:
                check.damaged[run.id] = f"artifact {name}: {problem}"
                break
        else:
            check.artifacts += len(kept)
            check.bytes += sum(artifact.bytes for artifact in kept.values())
            if recorded.keys() - kept.keys():
                check.absent.append(run.id)
    return check
