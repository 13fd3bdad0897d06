"""Put the files of a commit into a folder, with links to what git ignores, such as data.

<home>/versions/<commit>-<repository>/   the files of the commit; what git ignores in the working tree is linked
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

from plat.errors import SpecError, os_errors_as
from plat.store.disk.durable import locked
from plat.store.home import Home

SHORT = 12  # characters of a commit
SUBMODULE = b"160000"  # mode of an entry that is another repository
# Folders into which scripts write, and caches: a link would let both versions write into the user's own.
NOT_LINKED = (
    "__pycache__", ".pytest_cache", ".mypy_cache", ".ruff_cache", ".hypothesis", "build", "dist", "node_modules",
    "plat-home", "outputs", "output", "out", "multirun", "results", "runs", "logs", "log", "checkpoints", "ckpt",
    "wandb", "mlruns", "lightning_logs", "cache", ".cache",
)  # fmt: skip

SOURCES = (
    ".c", ".h", ".cc", ".cpp", ".cxx", ".hpp", ".cu", ".cuh", ".f", ".f90", ".f95", ".go", ".rs", ".java", ".kt",
    ".zig", ".py", ".pyx", ".sh", ".awk", ".r", ".jl", ".pl", ".js", ".ts", ".rb", ".lua", ".m", ".ml", ".hs", ".cs",
    ".swift", ".scala", ".cmake", ".mk", "makefile", "cmakelists.txt", "meson.build", "dockerfile", "justfile",
)  # fmt: skip
# Code where git has them; programs write such files, too.
SETTINGS = (".yaml", ".yml", ".toml", ".json", ".cfg", ".ini")
MOST_FILES = 1000


def git(folder: Path, *arguments: str, **variables: str) -> bytes:
    """Return the output of a git command. Raises SpecError with git's own words if it fails, or git is missing."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")} | variables
    command = ["git", "-C", str(folder), "-c", "core.fsmonitor=false", *arguments]
    try:
        return subprocess.run(command, capture_output=True, check=True, env=environment).stdout
    except FileNotFoundError:
        raise SpecError("git is not installed", fix="compare with a folder or another command: --against DIR") from None
    except subprocess.CalledProcessError as error:
        said = error.stderr.decode("utf-8", "replace").strip().splitlines() or ["no reason given"]
        raise SpecError(f"git {arguments[0]}: {said[-1]}", where=str(folder), fix="see `git status` there") from None


def commit_of(folder: Path, name: str) -> str:
    """Return the full hash of the commit that a name stands for in the repository of a folder; "" if there is none."""
    if not name or name.startswith("-"):
        return ""
    with contextlib.suppress(SpecError):
        return git(folder, "rev-parse", "--verify", "--quiet", f"{name}^{{commit}}").decode().strip()
    return ""


def checked_out(home: Home, folder: Path, commit: str, link: bool = True) -> Path:
    """Return the folder that stands for `folder` in the files of a commit, which are written once.

    link  make links to what git ignores in the working tree, now

    Raises SpecError if the commit has no such folder, has submodules, or cannot be read, and HomeError if the home is
    not writable.
    """
    top = Path(git(folder, "rev-parse", "--show-toplevel").decode().strip())
    versions = home.create().versions
    versions.mkdir(exist_ok=True)
    of_repository = hashlib.sha256(os.path.realpath(top).encode()).hexdigest()[:6]
    place = versions / f"{commit[:SHORT]}-{of_repository}{'' if link else '-bare'}"
    with (
        locked(versions / "lock"),
        os_errors_as(SpecError, "cannot write the files of the commit", place, "free some disk space"),
    ):
        if not place.is_dir():
            _write(top, commit, place)
        for path in _ignored(top, home) if link else ():
            _link(top / path, place / path)
    below = place / os.path.relpath(os.path.realpath(folder), os.path.realpath(top))
    if not below.is_dir():
        what = f"commit {commit[:SHORT]} has no folder {os.path.relpath(folder, top)}"
        raise SpecError(what, where=str(folder), fix="compare with a commit that has it, or begin above it")
    return Path(os.path.normpath(below))


def _write(top: Path, commit: str, place: Path) -> None:
    """Write the files of a commit into a new folder; the index of the repository stays as it is."""
    if any(line.startswith(SUBMODULE) for line in git(top, "ls-tree", "-r", commit).splitlines()):
        what = f"commit {commit[:SHORT]} has submodules, whose files git keeps elsewhere"
        raise SpecError(what, where=str(top), fix="check it out into a folder, and compare with that: --against DIR")
    scratch = place.with_name(f".tmp-{os.getpid()}-{place.name}")
    index = {"GIT_INDEX_FILE": f"{scratch}.index"}
    try:
        scratch.mkdir(parents=True)
        git(top, "read-tree", commit, **index)
        git(top, "checkout-index", "--all", "--force", f"--prefix={scratch}/", **index)
        scratch.rename(place)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
        Path(index["GIT_INDEX_FILE"]).unlink(missing_ok=True)


def code_files(folder: Path) -> list[str]:
    """Return the files of code in a folder and below, by the ends of their names, sorted.

    With git, these are sources that it does not ignore, and files of settings that it has. Without it, sources alone,
    and hidden folders, those in NOT_LINKED, and homes of plat are left out. Files beyond MOST_FILES are left out, and
    names that are no UTF-8.
    """
    try:
        settings = _listed(folder, "--cached")
        sources = settings + _listed(folder, "--others", "--exclude-standard")
    except SpecError:
        settings, sources = [], []
    sources = sources or list(_below(folder))  # also for the files of a commit, in a home that git ignores
    ends = dict.fromkeys(sources, SOURCES) | dict.fromkeys(settings, (*SOURCES, *SETTINGS))
    code = [name for name, of_code in ends.items() if name.lower().endswith(of_code) and (folder / name).is_file()]
    return sorted(name for name in code if not any("\ud800" <= one <= "\udfff" for one in name))[:MOST_FILES]


def _listed(folder: Path, *which: str) -> list[str]:
    return [os.fsdecode(name) for name in git(folder, "ls-files", *which, "-z").split(b"\0") if name]


def _below(folder: Path) -> Iterator[str]:
    """Yield the files in a folder and below, at most ten times MOST_FILES."""
    count = 0
    for root, folders, files in os.walk(folder):
        folders[:] = sorted(name for name in folders if name not in NOT_LINKED and not name.startswith("."))
        if "mlflow.db" in files or count > 10 * MOST_FILES:  # a home
            folders.clear()
            continue
        count += len(files)
        yield from (os.path.relpath(os.path.join(root, name), folder) for name in files)


def _ignored(top: Path, home: Home) -> Iterator[str]:
    """Yield the paths below the top folder that git ignores, without caches, what scripts write, and the home."""
    listed = git(top, "ls-files", "--others", "--ignored", "--exclude-standard", "--directory", "-z").split(b"\0")
    for path in map(os.fsdecode, filter(None, listed)):
        is_home = Path(os.path.realpath(top / path)).is_relative_to(os.path.realpath(home.root))
        names = set(Path(path).parts)
        if not is_home and names.isdisjoint(NOT_LINKED) and not path.endswith((".pyc", ".egg-info/", ".log")):
            yield path.rstrip("/")


def _link(original: Path, link: Path) -> None:
    """Link a file or folder, unless the commit has something there, or a folder above it is a file."""
    with contextlib.suppress(FileExistsError, NotADirectoryError):
        link.parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to(original)
