"""Find and remove files of a home that are no longer needed. Nothing of a run that may resume is ever listed.

scratch       half-written files and folders of killed processes, at least an hour old; the index of plat 0.4
checkpoints   of done runs, except the newest of each attempt (it says which events count) and the peak
artifacts     of attempts of a done run that did not make its result
preparations  notes and logs of preparations that are over
caches        base models and other shared work: made again when a run needs them; only on request
code          copies of the code of scripts that no unfinished run needs; only with the caches
"""

from __future__ import annotations

import contextlib
import os
import shutil
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from plat.errors import HomeError, PlatError, os_errors_as
from plat.processes import identification
from plat.spec.identity.run_identity import snapshot
from plat.store.disk.durable import read_json, scratch_name
from plat.store.home import Home
from plat.store.mlflow import deletion
from plat.store.run_directory import lease
from plat.store.run_directory.artifact_files import artifacts_of
from plat.store.run_directory.checkpoint import is_peak, list_checkpoints
from plat.store.run_directory.paths import RunPaths
from plat.store.run_directory.run_files import load_config, read_meta, read_result
from plat.trainer.finding import find_trainer
from plat.words.states import HELD, LeaseState

OLD = 3600.0  # seconds after which a half-written file has no writer
SCRATCH = (".tmp-*", ".probe-*", ".home-*.json")


@dataclass(frozen=True)
class Garbage:
    """A file or folder that can be removed; `kind` is e.g. "scratch" or "caches", `size` is in bytes."""

    kind: str
    path: Path
    size: int


def garbage(home: Home, *, caches: bool = False) -> list[Garbage]:
    """List the files and folders in a home that can be removed, ordered by kind.

    `caches` adds the caches, unless a run or a preparation has a process or may have one. What a link leads to outside
    of the home is never listed.
    """
    runs = home.all_runs()
    of_done = sorted(_of_done_runs(runs), key=lambda item: item[0], reverse=True)  # checkpoints before artifacts
    listed = [*_scratch(home, runs), *of_done, *_preparations(home)]
    active = {path.stem for path in _entries(home.preparations)} - {path.stem for _, path in _preparations(home)}
    if caches and not active and not any(lease.state(run) in HELD for run in runs):
        listed += [("caches", path) for kind in _entries(home.cache) for path in _entries(kind)]
        listed += [("code", path) for path in _unused_code(home, runs)]
    return [Garbage(kind, path, _size(path)) for kind, path in listed if home.holds(path)]


def remove_garbage(items: list[Garbage]) -> int:
    """Remove the items and return the bytes freed; items that are gone or cannot be removed are skipped."""
    freed = 0
    for item in items:
        with contextlib.suppress(OSError):
            if item.path.is_dir():
                grave = scratch_name(item.path)
                os.rename(item.path, grave)  # first its name, so that half of it is never seen
                shutil.rmtree(grave)
            else:
                item.path.unlink()
            freed += item.size
    return freed


def _scratch(home: Home, runs: list[RunPaths]) -> Iterator[tuple[str, Path]]:
    folders = [
        home.root,
        home.reports,
        home.cache,
        home.code,
        home.runs,
        *(path for path in _entries(home.runs) if path.is_dir()),
    ]
    yield from (("scratch", path) for folder in folders for path in _old_scratch(folder))
    yield from (("scratch", path) for path in home.root.glob("index.db*"))  # of plat 0.4
    for run in runs:
        listed = [*_old_scratch(run.root)]
        folders = [folder for attempt in run.attempts() for folder in (attempt.checkpoints, attempt.artifacts)]
        listed += [path for folder in folders for path in _old_scratch(folder)]
        if listed and lease.state(run) not in HELD:  # writing a large checkpoint may take hours
            yield from (("scratch", path) for path in listed)


def _old_scratch(folder: Path) -> Iterator[Path]:
    limit = time.time() - OLD
    for pattern in SCRATCH:
        for path in folder.glob(pattern):
            with contextlib.suppress(OSError):
                if path.lstat().st_mtime < limit:
                    yield path


def _of_done_runs(runs: list[RunPaths]) -> Iterator[tuple[str, Path]]:
    for run in runs:
        result = read_result(run)
        if result is None or lease.state(run) != LeaseState.FREE:
            continue
        for attempt in run.attempts():
            checkpoints = list_checkpoints(attempt.checkpoints)
            peaks = [path for _, path in checkpoints if is_peak(path)]
            kept = [path for _, path in checkpoints[-1:]] + peaks[-1:]
            yield from (("checkpoints", path) for _, path in checkpoints if path not in kept)
            if attempt.number != result.get("attempt"):
                yield from (("artifacts", artifact.path) for artifact in artifacts_of(attempt).values())


def _preparations(home: Home) -> Iterator[tuple[str, Path]]:
    going_on = set()
    for path in _entries(home.preparations):
        facts = read_json(path)
        if facts is not None and identification.may_run(facts):
            going_on.add(path.stem)
        else:
            yield "preparations", path
    yield from (("preparations", path) for path in home.logs.glob("prepare-*.txt") if path.stem not in going_on)


def _unused_code(home: Home, runs: list[RunPaths]) -> list[Path]:
    """Return the copies of code that no run without a result needs, and into which no run has written anything."""
    places, needed = [path for path in _entries(home.code) if not path.name.startswith(".")], set()
    for run in runs if places else ():
        with contextlib.suppress(
            PlatError, LookupError
        ):  # of a run that cannot be read, or of a trainer that is not here
            meta = {} if run.result.exists() else read_meta(run)
            needed.add(snapshot(home.code, meta["trainer"], load_config(run, meta), meta["identity"], "place_of"))
    return [path for path in places if path not in needed and not find_trainer("script").snapshots.left_in(path)]


def _entries(folder: Path) -> list[Path]:
    try:
        return sorted(folder.iterdir())
    except OSError:
        return []


def _size(path: Path) -> int:
    """Return the bytes of a file, or of everything in a folder."""
    if not path.is_dir() or path.is_symlink():
        with contextlib.suppress(OSError):
            return path.lstat().st_size
        return 0
    return sum(_size(entry) for entry in _entries(path))


# Remove runs from a home together with their MLflow runs.


def remove_runs(home: Home, uri: str, runs: Sequence[RunPaths]) -> None:
    """Delete these runs, their checkpoints and their MLflow runs.

    Raises LeaseHeld if a process works on one or may do so, and HomeError if a link leads to one outside of the home;
    then nothing is deleted. Raises StoreError or HomeError if the store or the home cannot be changed; then some runs
    may be deleted.
    """
    for run in runs:
        if run.root.is_symlink() or not home.holds(run.root):
            what = "a link leads to this run, which lies outside of the home"
            raise HomeError(what, where=str(run.root), fix="remove it where it lies, and then the link")
    with contextlib.ExitStack() as stack:
        for run in runs:
            held = lease.take(run)  # no process can start the run meanwhile
            if held is None:
                raise lease.refusal(run)
            stack.callback(held.release)
        # The store first: after a kill here the directories remain, the next import restores the MLflow runs from
        # them, and the same call resumes.
        deletion.remove(home, uri, [run.id for run in runs])
        for run in runs:
            fix = "make it writable, then give the same command again"
            with os_errors_as(HomeError, "cannot remove the run's directory", run.root, fix):
                run.result.unlink(missing_ok=True)  # first, so that a kill leaves no done run behind
                shutil.rmtree(run.root)
