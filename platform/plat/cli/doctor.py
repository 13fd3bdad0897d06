"""`plat doctor`: what works on this machine, one line each, worst first in the exit code."""

from __future__ import annotations

import os
import shutil
import sys
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from plat.cli.common import HomeOption, JsonOption, StoreOption, print_json
from plat.cli.settings import verb
from plat.cli.table import fitted
from plat.cores import cpu_quota, usable_cores
from plat.errors import PlatError
from plat.store.home import Home
from plat.units import counted

NEEDED_GB = 1.0  # a table of stand-ins with its store takes a fraction of this


@dataclass(frozen=True)
class Check:
    """One finding: `level` is "ok", "warning" or "error"; `mend` says what to do about it."""

    name: str
    level: str
    says: str
    mend: str = ""


@verb()
def doctor(
    deep: Annotated[
        bool,
        typer.Option(
            "--deep", help="Compare every stored value with the run directories, and artifacts with their hashes, too."
        ),
    ] = False,
    mend: Annotated[
        bool, typer.Option("--mend", help="As --deep, and mend a SQLite store from the run directories; keeps a copy.")
    ] = False,
    home: HomeOption = None,
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> int:
    """Check what works on this machine.

    Python, packages, plugins, torch, cores, home, disk and store. Exit code 2 when something is broken.
    """
    place = Home.find(home)
    uri = place.store_uri(store)
    checks: list[Callable[[], Check]] = [
        check_python,
        check_packages,
        check_plugins,
        check_environments,
        check_torch,
        check_cores,
        lambda: check_home(place),
        lambda: check_disk(place),
    ]
    findings = [check() for check in checks]
    results: list[Check] = []
    if deep or mend:  # before the store is checked, so that a mended store is called whole
        from plat.cli.deep_check import check_kept_files, check_results

        results = [Check("results", *finding) for finding in check_results(place, uri, mend)]
        results += [Check("artifacts", *finding) for finding in check_kept_files(place)]
    findings += [check_store(place, uri), *results]
    if as_json:
        print_json({"checks": [check.__dict__ for check in findings]})
    else:
        for check in findings:
            print(fitted(f"{check.level:8} {check.name:9} {check.says}"))
            if check.mend:
                print(fitted(f"{'':18} fix: {check.mend}"))
    return 2 if any(check.level == "error" for check in findings) else 0


def check_python() -> Check:
    version = ".".join(map(str, sys.version_info[:3]))
    if (3, 11) <= sys.version_info < (3, 13):
        return Check("python", "ok", f"{version} at {sys.executable}")
    return Check("python", "error", f"{version} is not supported", "use Python 3.11 or 3.12")


def check_packages() -> Check:
    """Every direct dependency of the distribution is installed, and in a version it allows."""
    from importlib.metadata import PackageNotFoundError, requires, version

    from packaging.requirements import Requirement

    try:
        wanted = [Requirement(text) for text in requires("plat") or ()]
    except PackageNotFoundError:
        return Check("packages", "error", "plat itself is not installed", "pip install --no-deps -e .")
    wrong = []
    for requirement in wanted:
        try:
            if not requirement.specifier.contains(version(requirement.name), prereleases=True):
                wrong.append(f"{requirement} (found {version(requirement.name)})")
        except PackageNotFoundError:
            wrong.append(f"{requirement.name} (missing)")
    if wrong:
        return Check("packages", "error", ", ".join(wrong), "pip install --no-deps -r requirements.txt")
    return Check("packages", "ok", f"{len(wanted)} direct dependencies, plat {version('plat')}")


def check_plugins() -> Check:
    """Every published trainer, environment, report builder and claim check can be imported; names them."""
    from importlib.metadata import entry_points

    groups, broken = [], []
    for group in ("plat.trainers", "plat.environments", "plat.reports", "plat.claims"):
        points = sorted(entry_points(group=group), key=lambda point: point.name)
        names = ", ".join(point.name for point in points)
        groups.append(f"{len(points)} {group.removeprefix('plat.')} ({names})")
        for point in points:
            try:
                point.load()
            except Exception as error:
                broken.append(f"{point.name} in {group} ({type(error).__name__}: {error})")
    if broken:
        return Check("plugins", "error", "; ".join(broken), "mend or uninstall the package that publishes it")
    return Check("plugins", "ok", ", ".join(groups))


def check_environments() -> Check:
    """Every environment of another package plays a few random episodes under its default options; names what fails."""
    from plat.errors import PlatError
    from plat.trainer.loop.rehearsal import is_plugged_in, play
    from plat.trainer.plugins import load_plugin, published

    played, broken, unread = [], [], []
    for name in published("plat.environments"):
        try:
            spec = load_plugin("plat.environments", name)
            if not is_plugged_in(spec):
                continue
            played.append(name)
            play(spec, spec.config_type(), "compact", only_known_words=False)
        except PlatError as error:
            broken.append(f"{error.what} ({error.where})" if error.where else error.what)
            continue
        try:
            play(spec, spec.config_type(), "compact", only_known_words=True)
        except PlatError as error:
            unread.append(error.what)
    if broken:
        return Check(
            "tasks", "error", "; ".join(broken), "mend the package that publishes it: docs/adding-a-trainer.md"
        )
    if unread:
        return Check("tasks", "warning", "; ".join(unread), "no stand-in can play it: use the words of the vocabulary")
    return Check("tasks", "ok", f"played: {', '.join(played) or 'no environment of another package is installed'}")


def check_torch() -> Check:
    """torch multiplies matrices here; says how fast one thread is and which CUDA devices there are."""
    try:
        import torch
    except Exception as error:
        return Check("torch", "error", f"cannot be imported: {error}", "make install")
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    left = torch.randn(768, 768)
    left @ left
    started = time.perf_counter()
    for _ in range(10):
        left @ left
    rate = 10 * 2 * 768**3 / (time.perf_counter() - started) / 1e9
    torch.set_num_threads(threads)
    devices = [torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())]
    return Check(
        "torch", "ok", f"{torch.__version__}, {rate:.0f} GFLOP/s a thread, CUDA: {', '.join(devices) or 'none'}"
    )


def check_cores() -> Check:
    """How many cores and how much memory the runs may use; a warning when memory is scarce for so many workers."""
    import psutil

    cores = usable_cores()
    memory = psutil.virtual_memory()
    quota = cpu_quota()
    limit = f" (a CPU quota of {quota:g})" if quota else ""
    says = f"{cores}{limit}, memory {memory.available / 2**30:.1f} of {memory.total / 2**30:.1f} GiB free"
    if memory.available < cores * 0.7 * 2**30:
        return Check("cores", "warning", says, "a worker takes about 0.7 GiB: use fewer, with --jobs")
    return Check("cores", "ok", says)


def _nearest(path: Path) -> Path:
    """The closest folder above (or at) the path that exists."""
    while not path.exists():
        path = path.parent
    return path


def check_home(home: Home) -> Check:
    """The home can be written to. Looks without creating it."""
    if home.root.exists():
        try:
            home.create()
        except PlatError as error:
            return Check("home", "error", f"{home.root}: {error.what}", error.mend or "")
        runs = len(home.run_ids())
        return Check("home", "ok", f"{home.root}, {counted(runs, 'run')}")
    parent = _nearest(home.root)
    if parent.is_dir() and os.access(parent, os.W_OK):
        return Check("home", "ok", f"{home.root} (will be made)")
    return Check("home", "error", f"cannot be made at {home.root}", "choose another with --home DIR (or PLAT_HOME)")


def check_disk(home: Home) -> Check:
    free = shutil.disk_usage(_nearest(home.root)).free / 2**30
    if free < NEEDED_GB:
        return Check("disk", "warning", f"{free:.1f} GiB free", f"free some space: {NEEDED_GB:.0f} GiB is comfortable")
    return Check("disk", "ok", f"{free:.0f} GiB free")


def check_store(home: Home, uri: str) -> Check:
    """The store can be used by every other verb: opened, of a known version, written to; a server answers. Looks
    without creating anything."""
    from plat.store.mlflow import sqlite_connection
    from plat.store.mlflow.connect import check_store as check_opening
    from plat.store.mlflow.store_errors import store_errors
    from plat.store.mlflow.uri import shown_uri, sqlite_path

    shown = shown_uri(uri)
    try:
        path = sqlite_path(uri)
        check_opening(home, uri)
        if path is None:
            return Check("store", "ok", shown)
        if not path.exists() or path.stat().st_size == 0:
            return Check("store", "ok", f"{shown} (will be made)")
        with store_errors(uri), closing(sqlite_connection.connect_readonly(path)) as database:
            runs = database.execute("select count(*) from runs").fetchone()[0]
    except PlatError as error:
        return Check("store", "error", f"{shown}: {error.what}", error.mend or "")
    try:
        with store_errors(uri), closing(sqlite_connection.connect(path, timeout=2)) as database:
            database.execute("begin immediate")  # asks for the right to write, and writes nothing
            database.execute("rollback")
    except PlatError as error:
        return Check(
            "store", "warning", f"{shown}, {runs} MLflow runs, only to be read: {error.what}", error.mend or ""
        )
    return Check("store", "ok", f"{shown}, {runs} MLflow runs")
