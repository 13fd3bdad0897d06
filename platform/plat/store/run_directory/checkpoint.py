"""Checkpoints of a run: `checkpoints/step-000010/{tensors.safetensors,meta.json}`, and `files/` where there are files.

Promised: a folder named `step-...` is whole, because it gets that name by a rename after its files are on disk; whether
the bytes are still the ones that were written is checked on loading (sha256 in meta.json), and so is that it is the
checkpoint of this run and step, which somebody may have copied here. A checkpoint that is damaged or of another run is
never used: `valid_states` logs a warning and goes on to the next older one. `prune` keeps the last two and the newest
peak.

A process that is killed while it saves leaves a folder whose name begins with `.tmp-`, which nobody reads and the next
attempt takes away.

`meta` is JSON, so tuples come back as lists. What is too large for memory a trainer writes as files, in place, into the
folder before it gets its name; meta.json then has their manifest (`plat.store.run_directory.manifest`).
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import logging
import os
import shutil
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from plat.errors import CheckpointError
from plat.plain_files import read_bytes, read_json_value
from plat.store.durable import fsync_folder, publish_folder, remove_folder, scratch_name, to_json, write_file
from plat.store.run_directory import manifest
from plat.store.run_directory.paths import run_of
from plat.store.run_directory.tensors import from_bytes, to_bytes
from plat.trainer.api import State, WriteFiles

FORMAT = 2  # the newest one known
WITHOUT_FILES = 1  # the format of a checkpoint that holds tensors only
FILES = "files"
LONGEST_STEP = 12  # digits
log = logging.getLogger(__name__)


def step_folder(folder: Path, step: int) -> Path:
    return folder / f"step-{step:06d}"


def list_checkpoints(folder: Path) -> list[tuple[int, Path]]:
    """(step, path) of every checkpoint in a folder, oldest first; not yet checked for damage."""
    try:
        names = os.listdir(folder)
    except (FileNotFoundError, NotADirectoryError):
        return []
    steps = [name.removeprefix("step-") for name in names if name.startswith("step-")]
    numbers = [int(text) for text in steps if text.isascii() and text.isdecimal() and len(text) <= LONGEST_STEP]
    return [(step, step_folder(folder, step)) for step in sorted(numbers)]


def newest_own(folder: Path) -> tuple[int, Path] | None:
    """(step, path) of the newest checkpoint in a folder that is not known to be another run's, or None."""
    return next(((step, path) for step, path in reversed(list_checkpoints(folder)) if not other_run(path)), None)


def other_run(path: Path) -> str | None:
    """The run that a checkpoint was written for, where that is another than the one it lies in; else None."""
    here, written_for = run_of(path), (_read_meta(path) or {}).get("run")
    return str(written_for) if here and written_for and here != written_for else None


@dataclass(frozen=True)
class Notes:
    """What a checkpoint says about the run around it; None where it was written without.

    events     how many events the attempt had logged before it
    peak_step  step of the newest checkpoint marked `peak`, this one included
    success    the newest value of the headline metric
    """

    events: int | None = None
    peak_step: int | None = None
    success: float | None = None


def save_checkpoint(
    folder: Path,
    step: int,
    state: State,
    peak: bool = False,
    notes: Notes | None = None,
    write_files: WriteFiles | None = None,
) -> Path:
    """Write a durable checkpoint and return its path. One of the same step is replaced, and stays a peak if it was one.

    write_files   None, or what writes the checkpoint's files into the empty folder that it is given

    OSError when the disk is full, RunError when a file cannot be kept; the folder then holds what it held before.
    """
    target = step_folder(folder, step)
    scratch = scratch_name(target)
    tensors, framework = to_bytes(state.tensors)
    content = json.loads(json.dumps(state.meta))  # as it will be read back: tuples are lists, keys are strings
    previous = _read_meta(target) if target.exists() else None
    meta = {
        "format": WITHOUT_FILES if write_files is None else FORMAT,
        "step": step,
        "run": run_of(target),
        "peak": peak or bool(previous and previous.get("peak")),
        "framework": framework,
        "sha256": hashlib.sha256(tensors).hexdigest(),
        "meta": content,
        **asdict(notes or Notes()),
    }
    try:
        scratch.mkdir(parents=True)
        if write_files is not None:
            (scratch / FILES).mkdir()
            write_files(scratch / FILES)
            meta[FILES] = manifest.seal(scratch / FILES)
        meta["meta_sha256"] = _meta_hash(meta)
        write_file(scratch / "tensors.safetensors", tensors)
        write_file(scratch / "meta.json", to_json(meta))
        fsync_folder(scratch)
        publish_folder(scratch, target)
    except BaseException:
        shutil.rmtree(scratch, ignore_errors=True)
        raise
    return target


def load_checkpoint(path: Path) -> State:
    """The state in a checkpoint folder; CheckpointError when anything in it is missing, damaged, or of another run."""
    meta = _read_meta(path)
    if meta is None:
        raise _damaged(path, "meta.json is missing or not readable")
    if meta.get("format", 0) > FORMAT:
        raise CheckpointError("the checkpoint is from a newer plat", where=str(path), mend="upgrade plat")
    try:
        data = read_bytes(path / "tensors.safetensors", limit=None)
    except OSError as error:
        raise _damaged(path, f"tensors.safetensors: {error.strerror}") from error
    if hashlib.sha256(data).hexdigest() != meta.get("sha256"):
        raise _damaged(path, "the checksum of tensors.safetensors does not match")
    if _meta_hash(meta) != meta.get("meta_sha256"):
        raise _damaged(path, "the checksum of meta.json does not match")
    _check_place(path, meta)
    if FILES in meta and (problem := manifest.damage(path / FILES, meta[FILES])):
        raise _damaged(path, f"{FILES}: {problem}")
    return State(from_bytes(data, meta["framework"]), meta["meta"], path / FILES if FILES in meta else None)


def _check_place(path: Path, meta: dict[str, Any]) -> None:
    """CheckpointError when a checkpoint was written for another run or step. Outside of a run directory, and without a
    run's id in it (before plat 0.2.1), nothing is known of the run.
    """
    if written_for := other_run(path):
        raise _damaged(path, f"it is of another run, {written_for}")
    if path.name.startswith("step-") and path != step_folder(path.parent, meta["step"]):
        raise _damaged(path, f"it is of step {meta['step']}")


def is_peak(path: Path) -> bool:
    return bool((_read_meta(path) or {}).get("peak"))


def read_notes(path: Path) -> Notes:
    """The notes of a checkpoint; empty ones when its meta.json is damaged or from before there were notes."""
    meta = _read_meta(path)
    if meta is None or _meta_hash(meta) != meta.get("meta_sha256"):
        return Notes()
    return Notes(meta.get("events"), meta.get("peak_step"), meta.get("success"))


def valid_states(folders: list[Path], peak: bool = False) -> Iterator[tuple[int, Path, State]]:
    """(step, path, state) of every checkpoint that loads, the newest first; the others are named in a warning."""
    candidates = [
        (step, index, path) for index, folder in enumerate(folders) for step, path in list_checkpoints(folder)
    ]
    for step, _, path in sorted(candidates, reverse=True):
        if peak and not is_peak(path) and _read_meta(path) is not None:
            continue
        try:
            yield step, path, load_checkpoint(path)
        except CheckpointError as error:
            log.warning("%s (%s); it is not used", error.what, error.where)


def state_at(folders: list[Path], step: int) -> State | None:
    """The state of the checkpoint of this step, from the newest folder in which it loads."""
    for folder in reversed(folders):
        with contextlib.suppress(CheckpointError):
            return load_checkpoint(step_folder(folder, step))
    return None


def prune(folder: Path, keep: int = 2) -> None:
    """Remove all but the last `keep` checkpoints and the newest peak."""
    checkpoints = list_checkpoints(folder)
    older = checkpoints[:-keep] if keep else checkpoints
    if not older:
        return
    peaks = [step for step, path in checkpoints if is_peak(path)]
    for step, path in older:
        if not peaks or step != peaks[-1]:
            remove_folder(path)


def _read_meta(path: Path) -> dict[str, Any] | None:
    with contextlib.suppress(OSError, ValueError):
        meta = read_json_value(path / "meta.json")
        return meta if isinstance(meta, dict) else None
    return None


def _meta_hash(meta: dict[str, Any]) -> str:
    """Over everything in meta.json but the hash itself."""
    rest = {key: value for key, value in meta.items() if key != "meta_sha256"}
    return hashlib.sha256(json.dumps(rest, sort_keys=True).encode()).hexdigest()


def _damaged(path: Path, why: str) -> CheckpointError:
    return CheckpointError(
        f"the checkpoint is damaged: {why}", where=str(path), mend="remove the folder; an older one will be used"
    )
