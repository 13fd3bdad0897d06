"""The files that decide a script's result: those its command names, what they import, and `script.files`."""

from __future__ import annotations

import os
import shlex
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from plat import script_log
from plat.errors import SpecError
from plat.plugins.plugin_code import NamedFiles, imported_files, imported_names, imported_paths, installed_versions
from plat.plugins.python_code import code_hash
from plat.trainer.script.command import interpreter
from plat.trainer.script.config import (
    KINDS,
    MLFLOW,
    TENSORBOARD,
    TRACKIO,
    WANDB,
    ScriptConfig,
    ScriptRunConfig,
    sources_of,
)
from plat.trainer.script.named_files import FUNCTION_MODULE, MODULES, NamedFile, file_hash, files_of, named_files
from plat.trainer.script.readers import mlflow, tensorboard, wandb
from plat.trainer.script.readers.metrics_file import MetricsFile, MetricsFiles
from plat.trainer.script.readers.objects import Refuse, Source
from plat.trainer.script.readers.trackio import TrackioFiles
from plat.trainer.script.search_folders import added_folders, hydra_files, spelled_files, targets


class Found(NamedTuple):
    """Files with their hashes, the modules that are elsewhere, and the versions of those that are packages.

    before, outside_before  the files and modules by the rules of plat 0.4
    """

    files: dict[Path, str]
    outside: set[str]
    versions: dict[str, str]
    before: dict[Path, str]
    outside_before: set[str]
    listed: frozenset[Path]  # the files that only `script.files` names


Hash = Callable[[Path], str]
LIMIT = 1 << 20  # bytes; a larger Python file is data
_FRESH = 0.05  # seconds: the runs of one sweep follow each other more closely
_MOST = 64  # different sets of files of one sweep that are remembered
_recent: dict[object, tuple[float, dict[Path, tuple[int, ...]], Found]] = {}


def source_files(config: ScriptRunConfig) -> NamedFiles:
    """Return file -> hash, for every file that decides the result of a command; the file that it names first is first.

    These are the files that the command names (`named_files`), the modules that a Python file among them imports from
    there or from an unreleased package, the config folder of a Hydra app with the modules that it names, and the files
    that match `script.files`. Names are relative to the folder. Comments and layout of Python code do not count.
    `earlier` has the files and hashes of plat 0.4. Raises SpecError if a pattern of `script.files` matches nothing.
    """
    script, folder = config.script, Path(config.script.folder)
    found = _found(script, folder, tuple(named_files(config)))
    named = NamedFiles(
        _by_name(found.files, folder) | _packages(found.outside, of_syntax=True),
        _packages(found.outside_before, of_syntax=False) | _by_name(found.before, folder),
        found.versions if interpreter(script) == sys.executable else {},  # of another Python they are unknown
    )
    named.first = next(iter(found.files), None)
    return named


def followed_files(config: ScriptRunConfig) -> tuple[dict[Path, str], frozenset[Path]]:
    """Return path -> hash of the files of `source_files`, and those of them that only `script.files` names."""
    found = _found(config.script, Path(config.script.folder), tuple(named_files(config)))
    packages = {path: digest for name in sorted(found.outside) for path, digest in imported_paths(name).items()}
    return found.files | packages, found.listed


def hash_of(path: Path) -> str:
    """Return the hash of a file: for Python code that of its syntax (`python_code`), else the SHA-256 of its bytes."""
    return code_hash(path.read_bytes()) if path.suffix == ".py" and path.stat().st_size < LIMIT else file_hash(path)


def _by_name(files: dict[Path, str], folder: Path) -> dict[str, str]:
    return {Path(os.path.relpath(path, folder)).as_posix(): digest for path, digest in files.items()}


def _matching(script: ScriptConfig, folder: Path) -> Iterator[Path]:
    for pattern in script.files:
        matches = sorted(path for path in folder.glob(pattern) if path.is_file())
        if not matches:
            fix = f"patterns are relative to {folder}; folders: data/**"
            raise SpecError(f"no file matches {pattern!r}", where="script.files", fix=fix)
        yield from matches


def _packages(names: Iterable[str], of_syntax: bool) -> dict[str, str]:
    """Return the files of unreleased packages among these modules (`plat.plugins.plugin_code`)."""
    return {file: digest for name in sorted(names) for file, digest in imported_files(name, of_syntax).items()}


def _found(script: ScriptConfig, folder: Path, named: tuple[NamedFile, ...]) -> Found:
    """Return what these files and the config lead to; again for the next run of a sweep, if no file has changed."""
    key = named, repr(script.command), script.function, script.folder, tuple(script.files)
    now = time.monotonic()
    if key in _recent:
        used, states, kept = _recent[key]
        if now - used < _FRESH and all(_state(path) == state for path, state in states.items()):
            _recent[key] = now, states, kept
            return kept
    files: dict[Path, str] = {}
    outside: set[str] = set()
    for file in named:
        files.setdefault(file.path, hash_of(file.path))
        if file.path.suffix == ".py":
            files |= _imports_of(file, outside, hash_of)
    before, outside_before = _of_0_4(script, folder)
    listed = frozenset(path for path in _matching(script, folder) if path not in files)
    for path in _matching(script, folder):
        files[path], before[path] = hash_of(path), file_hash(path)
    versions = installed_versions(name.partition(".")[0] for name in outside)
    found = Found(files, outside, versions, before, outside_before, listed)
    if len(_recent) >= _MOST:
        _recent.clear()
    _recent[key] = time.monotonic(), {path: _state(path) for path in files}, found
    return found


def _state(path: Path) -> tuple[int, ...]:
    try:
        status = path.stat()
    except OSError:
        return ()
    return status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns


def _imports_of(file: NamedFile, outside: set[str], hash_with: Hash, as_0_4: bool = False) -> dict[Path, str]:
    """Return file -> hash of everything that a Python file imports from its roots, directly or not.

    outside   gets the names of the modules that are not below the roots
    as_0_4    follow neither `sys.path` nor Hydra nor files that the code names
    """
    roots, waiting, found = list(file.roots), [file.path], {file.path: hash_with(file.path)}
    while waiting:
        path = waiting.pop()
        content = path.read_bytes()
        if not as_0_4:
            roots += [folder for folder in added_folders(content, path, file.place) if folder not in roots]
        package = next((_package(path, root) for root in roots if path.is_relative_to(root)), "")
        names: Iterable[str] = imported_names(content, package)
        if not as_0_4:
            for called in spelled_files(content, [file.place, path.parent]):
                if called not in found:
                    found[called] = hash_with(called)
                    waiting += [called] if called.suffix == ".py" else []
            configs = hydra_files(content, path)
            found |= {config: file_hash(config) for config in configs}
            names = [*names, *targets(configs)]
        for name in names:
            local = [module for root in roots for module in files_of(name, root)]
            if not local:
                outside.add(name)
            for module in local:
                if module not in found:
                    found[module] = hash_with(module)
                    waiting.append(module)
    return found


def _package(file: Path, root: Path) -> str:
    return ".".join(file.relative_to(root).parent.parts)


def _of_0_4(script: ScriptConfig, folder: Path) -> tuple[dict[Path, str], set[str]]:
    """Return the files that plat 0.4 found, with the hashes of their bytes, and the modules that are elsewhere."""
    found: dict[Path, str] = {}
    outside: set[str] = set()
    command = script.command
    try:
        words = shlex.split(command) if isinstance(command, str) else [str(word) for word in command]
    except ValueError:
        return found, outside
    if script.function:
        words = [FUNCTION_MODULE, script.function.partition(":")[0]]
    before = ""
    for word in words:
        is_module = before in MODULES
        files = [*files_of(word, folder), *files_of(f"{word}.__main__", folder)] if is_module else [folder / word]
        for path in dict.fromkeys(files):
            if "{" not in word and path.is_file() and path.resolve().is_relative_to(folder.resolve()):
                found[path] = file_hash(path)
                if path.suffix == ".py":
                    roots = (folder,) if is_module else (path.parent, folder)
                    found |= _imports_of(NamedFile(path, roots, folder), outside, file_hash, as_0_4=True)
        before = word
    return found, outside


# Find what a script logs into: the sources that `script.metrics` names, and how the script is told where they are.

OF_PLAT = "metrics.jsonl"  # below PLAT_RUN_DIR: what `plat.log` writes
FOLDER = {WANDB: "wandb", TRACKIO: "trackio"}  # below PLAT_RUN_DIR


def remove_old(script: ScriptConfig, files: Path) -> None:
    """Remove what an earlier attempt has logged: what counts of it is in the events of that attempt."""
    old = [files / OF_PLAT]
    for name in sources_of(script):
        if name == TENSORBOARD:
            old += files.rglob(tensorboard.PATTERN)
        elif name == WANDB:
            old += files.rglob(wandb.PATTERN)
        elif name == TRACKIO:
            old += (path for path in (files / FOLDER[TRACKIO]).rglob("*") if path.is_file())
        elif name not in KINDS:
            old += files.glob(name)
    for path in old:
        path.unlink(missing_ok=True)


def prepared(script: ScriptConfig, files: Path, cache: Path) -> dict[str, str | None]:
    """Prepare the sources, and return variables of the environment for their clients: None removes one.

    Raises RunError if MLflow cannot make an empty store.
    """
    names, variables = sources_of(script), dict[str, str | None]()
    if MLFLOW in names:
        variables |= mlflow.empty_store(files, cache)
    if WANDB in names:
        (files / FOLDER[WANDB]).mkdir(exist_ok=True)
        variables |= {"WANDB_MODE": "offline", "WANDB_DIR": str(files)}
    if TRACKIO in names:
        variables |= {"TRACKIO_DIR": str(files / FOLDER[TRACKIO])}
    return variables | {"PLAT_METRICS": str(files / OF_PLAT)}


def opened(script: ScriptConfig, files: Path, refuse: Refuse, first: int) -> list[Source]:
    """Return the readers of all sources but the output.

    refuse  says what cannot be read
    first   the number of the first line without a step
    """
    found: list[Source] = [MetricsFile(files / OF_PLAT, script.step, refuse, first=first, time_key=script_log.WRITTEN)]
    for name in sources_of(script):
        if name == TENSORBOARD:
            found.append(tensorboard.EventFiles(files, refuse))
        elif name == MLFLOW:
            found.append(mlflow.MlflowFile(files / mlflow.NAME))
        elif name == WANDB:
            found.append(wandb.WandbFiles(files, refuse))
        elif name == TRACKIO:
            found.append(TrackioFiles(files / FOLDER[TRACKIO], refuse))
        elif name not in KINDS:
            found.append(
                MetricsFiles(
                    files, name, lambda path, known: MetricsFile(path, script.step, refuse, known, first=first)
                )
            )
    return found
