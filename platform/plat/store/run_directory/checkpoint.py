"""Save and load checkpoints: `checkpoints/step-000010/{tensors.safetensors,meta.json}`, with optional `files/`.

A folder named `step-...` is complete: it gets that name by a rename after its files are on disk. Loading checks the
sha256 in meta.json, the run and the step. A killed save leaves a `.tmp-` folder, which the next attempt removes.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import logging
import os
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from plat.errors import CheckpointError
from plat.plain_files import read_bytes, read_json_value
from plat.store.disk.durable import fsync_folder, remove_folder, replacing, to_json, write_file
from plat.store.run_directory import folder_manifest
from plat.store.run_directory.paths import run_of
from plat.trainer.api import State, WriteFiles

FORMAT = 2  # the newest known format
WITHOUT_FILES = 1  # the format of a checkpoint that holds tensors only
FILES = "files"
LONGEST_STEP = 12  # digits
log = logging.getLogger(__name__)


def step_folder(folder: Path, step: int) -> Path:
    return folder / f"step-{step:06d}"


def list_checkpoints(folder: Path) -> list[tuple[int, Path]]:
    """Return (step, path) of every checkpoint in a folder, the lowest step first, without a check for damage."""
    try:
        names = os.listdir(folder)
    except (FileNotFoundError, NotADirectoryError):
        return []
    steps = [name.removeprefix("step-") for name in names if name.startswith("step-")]
    numbers = [int(text) for text in steps if text.isascii() and text.isdecimal() and len(text) <= LONGEST_STEP]
    return [(step, step_folder(folder, step)) for step in sorted(numbers)]


def newest_own(folder: Path) -> tuple[int, Path] | None:
    """Return (step, path) of the checkpoint with the highest step, even if damaged; None if none is of this run."""
    return next(((step, path) for step, path in reversed(list_checkpoints(folder)) if not other_run(path)), None)


def other_run(path: Path) -> str | None:
    """Return the id of the run in a checkpoint's meta.json if it is not the run in whose directory the checkpoint lies.

    Returns None if both are the same, or if one of them is unknown.
    """
    here, written_for = run_of(path), (_read_meta(path) or {}).get("run")
    return str(written_for) if here and written_for and here != written_for else None


@dataclass(frozen=True)
class Notes:
    """The progress of the run at a checkpoint; None where a value was not recorded.

    events     number of events that the attempt logged before it
    peak_step  step of the newest checkpoint marked `peak`, including this one
    success    newest value of the headline metric
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
    """Write a durable checkpoint and return its path. It replaces an earlier one of the same step.

    peak          mark it as a peak; if the earlier one was a peak, the new one is a peak in any case
    write_files   gets an empty folder for files that are too large for memory; meta.json holds their manifest

    Raises OSError on a full disk, RunError for entries that are neither files nor folders; `folder` stays as it was.
    """
    target = step_folder(folder, step)
    tensors, framework = _to_bytes(state.tensors)
    content = json.loads(json.dumps(state.meta))  # tuples become lists, as after reading
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
    with replacing(target) as scratch:
        scratch.mkdir(parents=True)
        if write_files is not None:
            (scratch / FILES).mkdir()
            write_files(scratch / FILES)
            meta[FILES] = folder_manifest.seal(scratch / FILES)
        meta["meta_sha256"] = _meta_hash(meta)
        write_file(scratch / "tensors.safetensors", tensors)
        write_file(scratch / "meta.json", to_json(meta))
        fsync_folder(scratch)
    return target


def load_checkpoint(path: Path) -> State:
    """Load a checkpoint. Raises CheckpointError if it is incomplete, damaged, too new, or of another run or step."""
    meta = _read_meta(path)
    if meta is None:
        raise _damaged(path, "meta.json is missing or not readable")
    if meta.get("format", 0) > FORMAT:
        raise CheckpointError("the checkpoint is from a newer plat", where=str(path), fix="upgrade plat")
    try:
        data = read_bytes(path / "tensors.safetensors", limit=None)
    except OSError as error:
        raise _damaged(path, f"tensors.safetensors: {error.strerror}") from error
    if hashlib.sha256(data).hexdigest() != meta.get("sha256"):
        raise _damaged(path, "the checksum of tensors.safetensors does not match")
    if _meta_hash(meta) != meta.get("meta_sha256"):
        raise _damaged(path, "the checksum of meta.json does not match")
    if written_for := other_run(path):
        raise _damaged(path, f"it is of another run, {written_for}")
    if path.name.startswith("step-") and path != step_folder(path.parent, meta["step"]):
        raise _damaged(path, f"it is of step {meta['step']}")
    if FILES in meta and (problem := folder_manifest.damage(path / FILES, meta[FILES])):
        raise _damaged(path, f"{FILES}: {problem}")
    return State(_from_bytes(data, meta["framework"]), meta["meta"], path / FILES if FILES in meta else None)


def is_peak(path: Path) -> bool:
    return bool((_read_meta(path) or {}).get("peak"))


def read_notes(path: Path) -> Notes:
    """Return the notes of a checkpoint; empty notes if its meta.json is damaged or has none."""
    meta = _read_meta(path)
    if meta is None or _meta_hash(meta) != meta.get("meta_sha256"):
        return Notes()
    return Notes(meta.get("events"), meta.get("peak_step"), meta.get("success"))


def valid_states(folders: list[Path], peak: bool = False) -> Iterator[tuple[int, Path, State]]:
    """Yield (step, path, state) of every checkpoint that loads, the highest step first; log a warning for the others.

    With `peak`, only checkpoints marked as a peak. Of one step, the checkpoint in the last folder comes first.
    """
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
    """Load the checkpoint of this step from the last folder of the list; if that fails, from the one before, and so on.

    Returns None if it loads from no folder.
    """
    for folder in reversed(folders):
        with contextlib.suppress(CheckpointError):
            return load_checkpoint(step_folder(folder, step))
    return None


def prune(folder: Path, keep: int = 2) -> None:
    """Remove all checkpoints but the `keep` with the highest steps and the newest peak."""
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
    """Return the sha256 of meta.json without `meta_sha256`."""
    rest = {key: value for key, value in meta.items() if key != "meta_sha256"}
    return hashlib.sha256(json.dumps(rest, sort_keys=True).encode()).hexdigest()


def _damaged(path: Path, why: str) -> CheckpointError:
    return CheckpointError(
        f"the checkpoint is damaged: {why}", where=str(path), fix="remove the folder; an older one will be used"
    )


def _to_bytes(tensors: dict[str, Any]) -> tuple[bytes, str]:
    """Return the content of a safetensors file, and the framework that reads it: "numpy" or "torch".

    If all tensors are numpy arrays, they come back as numpy arrays, and torch is never imported.
    """
    import numpy

    if all(isinstance(value, numpy.ndarray) for value in tensors.values()):
        import safetensors.numpy

        return safetensors.numpy.save({k: numpy.asarray(v, order="C") for k, v in tensors.items()}), "numpy"
    import safetensors.torch
    import torch

    # clone: safetensors rejects tensors that share memory (tied embeddings, views of one optimiser buffer)
    return safetensors.torch.save(
        {key: torch.as_tensor(value).detach().to("cpu").contiguous().clone() for key, value in tensors.items()}
    ), "torch"


def _from_bytes(data: bytes, framework: str) -> dict[str, Any]:
    """Return the tensors, given the content of their safetensors file and the framework from `_to_bytes`."""
    if framework == "numpy":
        import safetensors.numpy

        return safetensors.numpy.load(data)
    import safetensors.torch

    return safetensors.torch.load(data)
