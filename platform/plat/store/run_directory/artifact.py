"""What a run leaves behind besides its history, as files of any size: `attempts/001/artifacts/<name>/`.

Such as the trained model in the Hugging Face format. The folder holds `files/` and `manifest.json`. Promised: a folder
that is not named `.tmp-...` is whole, because it gets its name by a rename after its files are on disk; whether the
bytes are still the ones that were written, `damage` checks.

The hash of an artifact is recorded as a fact of its attempt (`artifact/<name>`), and so in the summary of result.json
and in every bundle of the run. The files themselves stay in the run's directory: they are archived, copied and removed
with it, and do not travel in bundles. Of a done run only the artifacts of the attempt that made the result count.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
from dataclasses import dataclass
from pathlib import Path

from plat.errors import RunError
from plat.store.durable import fsync_folder, publish_folder, read_json, scratch_name, to_checked_json, write_file
from plat.store.run_directory import manifest
from plat.store.run_directory.paths import AttemptPaths
from plat.trainer.api import WriteFiles

FILES, MANIFEST = "files", "manifest.json"
FACT = "artifact/"  # the names of the facts that record an artifact begin with it
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,99}")


@dataclass(frozen=True)
class Artifact:
    """One artifact of an attempt: where it is, what it holds, and the hash of its manifest."""

    path: Path
    files: int
    bytes: int
    sha256: str


def save_artifact(attempt: AttemptPaths, name: str, write_files: WriteFiles) -> Artifact:
    """Keep what `write_files` writes below the empty folder that it is given; an earlier one of the name is replaced.

    RunError for a name that cannot be one of a folder and of a metric, and for files that cannot be kept.
    """
    if not _NAME.fullmatch(name):
        raise RunError(
            f"{name!r} cannot be the name of an artifact",
            mend="use letters, digits, underscores, and after the first character dots and hyphens",
        )
    target = attempt.artifacts / name
    scratch = scratch_name(target)
    try:
        (scratch / FILES).mkdir(parents=True)
        write_files(scratch / FILES)
        sealed = manifest.seal(scratch / FILES)
        write_file(scratch / MANIFEST, to_checked_json({"files": sealed}))
        fsync_folder(scratch)
        publish_folder(scratch, target)
    except BaseException:
        shutil.rmtree(scratch, ignore_errors=True)
        raise
    return _artifact(target, sealed)


def artifacts_of(attempt: AttemptPaths) -> dict[str, Artifact]:
    """The artifacts of an attempt by name, as their manifests describe them; damaged manifests left out."""
    described = {}
    for name in artifact_folders(attempt):
        sealed = _read_manifest(attempt.artifacts / name)
        if sealed is not None:
            described[name] = _artifact(attempt.artifacts / name, sealed)
    return described


def artifact_folders(attempt: AttemptPaths) -> list[str]:
    """The names of an attempt's artifacts, damaged ones included, in order."""
    try:
        return sorted(name for name in os.listdir(attempt.artifacts) if _NAME.fullmatch(name))
    except OSError:
        return []


def damage(path: Path) -> str:
    """What is wrong with the artifact in a folder, in words; "" when nothing is."""
    sealed = _read_manifest(path)
    return f"{MANIFEST} is missing or damaged" if sealed is None else manifest.damage(path / FILES, sealed)


def _read_manifest(path: Path) -> manifest.Manifest | None:
    sealed = (read_json(path / MANIFEST) or {}).get("files")
    return sealed if isinstance(sealed, dict) else None


def _artifact(path: Path, sealed: manifest.Manifest) -> Artifact:
    content = json.dumps(sealed, sort_keys=True).encode()
    size = sum(facts["bytes"] for facts in sealed.values())
    return Artifact(path, len(sealed), size, hashlib.sha256(content).hexdigest())
