"""`plat doctor`: check this machine, one line for each check; an error makes the exit code 2."""

from __future__ import annotations

import os
import shutil
import sys
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Annotated

import typer

from plat.app.deep_check import Finding, check_kept_files, check_results
from plat.cli.common import HomeOption, JsonOption, StoreOption, print_json, verb
from plat.cli.screen.table import fitted
from plat.errors import PlatError
from plat.processes.cores import cpu_quota, usable_cores
from plat.store.home import Home
from plat.trainer.plugins import GROUPS, load_plugin, published
from plat.units import counted

NEEDED_GB = 1.0  # a table of stand-ins with its store takes a fraction of this


@verb()
def doctor(
    deep: Annotated[bool, typer.Option("--deep", help="Also compare the store and artifacts with the runs.")] = False,
    fix: Annotated[bool, typer.Option("--fix", help="As --deep, and repair a SQLite store; keeps a copy.")] = False,
    home: HomeOption = None,
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> int:
    """Check what works on this machine.

    Python, packages, plugins, sandbox, torch, cores, home, disk and store. Exit code 2 when something is broken.
    """
    place = Home.find(home)
    uri = place.store_uri(store)
    checks: dict[str, Callable[[], Finding]] = {
        "python": check_python,
        "packages": check_packages,
        "plugins": check_plugins,
        "tasks": check_environments,
        "sandbox": check_sandbox,
        "torch": check_torch,
        "cores": check_cores,
        "home": lambda: check_home(place),
        "disk": lambda: check_disk(place),
    }
    findings = [(name, check()) for name, check in checks.items()]
    results: list[tuple[str, Finding]] = []
    if deep or fix:  # before the store is checked, so that the check sees the fixed store
        results += [("results", finding) for finding in check_results(place, uri, fix)]
        results += [("artifacts", finding) for finding in check_kept_files(place)]
    findings += [("store", check_store(place, uri)), *results]
    if as_json:
        print_json({"checks": [{"name": name, **finding._asdict()} for name, finding in findings]})
    else:
        for name, finding in findings:
            print(fitted(f"{finding.level:8} {name:9} {finding.says}"))
            if finding.fix:
                print(fitted(f"{'':18} fix: {finding.fix}"))
    return 2 if any(finding.level == "error" for _, finding in findings) else 0


def check_python() -> Finding:
    version = ".".join(map(str, sys.version_info[:3]))
    if (3, 11) <= sys.version_info < (3, 13):
        return Finding("ok", f"{version} at {sys.executable}")
    return Finding("error", f"{version} is not supported", "use Python 3.11 or 3.12")


def check_packages() -> Finding:
    """Check that every direct dependency is installed; a package of an extra may be missing, but not be too old."""
    from importlib.metadata import PackageNotFoundError, requires, version

    from packaging.requirements import Requirement

    try:
        wanted = [Requirement(text) for text in requires("plat") or ()]
    except PackageNotFoundError:
        return Finding("error", "plat itself is not installed", "pip install --no-deps -e .")
    wrong = []
    for requirement in wanted:
        try:
            if not requirement.specifier.contains(version(requirement.name), prereleases=True):
                wrong.append(f"{requirement} (found {version(requirement.name)})")
        except PackageNotFoundError:
            if requirement.marker is None:
                wrong.append(f"{requirement.name} (missing)")
    if wrong:
        return Finding("error", ", ".join(wrong), "pip install --no-deps -r requirements.txt")
    needed = sum(requirement.marker is None for requirement in wanted)
    return Finding("ok", f"{needed} direct dependencies, plat {version('plat')}")


def check_plugins() -> Finding:
    """Import every published trainer, dispatcher, environment, report builder and claim check, and list their names."""
    from importlib.metadata import entry_points

    groups, broken = [], []
    for group in GROUPS:
        points = sorted(entry_points(group=group), key=lambda point: point.name)
        names = ", ".join(point.name for point in points)
        groups.append(f"{len(points)} {group.removeprefix('plat.')} ({names})")
        for point in points:
            try:
                point.load()
            except Exception as error:
                broken.append(f"{point.name} in {group} ({type(error).__name__}: {error})")
    if broken:
        return Finding("error", "; ".join(broken), "fix or uninstall the package that publishes it")
    return Finding("ok", ", ".join(groups))


def check_environments() -> Finding:
    """Play random episodes in every environment of another package, with default options, and name what fails."""
    from plat.trainer.loop.rehearsal import is_plugged_in, play

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
        return Finding("error", "; ".join(broken), "fix the package that publishes it: docs/adding-a-trainer.md")
    if unread:
        return Finding("warning", "; ".join(unread), "no stand-in can play it: use the words of the vocabulary")
    return Finding("ok", f"played: {', '.join(played) or 'no environment of another package is installed'}")


def check_sandbox() -> Finding:
    """Try the levels of the sandbox with hostile programs, down to the first that this machine has."""
    from plat_envs.environment_errors import BadEnvironment
    from plat_envs.sandbox.levels import choose, provenance

    try:
        facts = provenance(choose())
    except BadEnvironment as error:
        return Finding("warning", error.what, error.fix or "")
    level = facts.pop("level")
    return Finding("ok", f"{level}: {', '.join(f'{name} {value}' for name, value in facts.items())}")


def check_torch() -> Finding:
    """Multiply matrices with torch; report the speed of one thread and the CUDA devices."""
    try:
        import torch
    except Exception as error:
        return Finding("error", f"cannot be imported: {error}", "make install")
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
    return Finding("ok", f"{torch.__version__}, {rate:.0f} GFLOP/s a thread, CUDA: {', '.join(devices) or 'none'}")


def check_cores() -> Finding:
    """Report the cores and memory for runs. A warning if less than 0.7 GiB of memory per usable core is available."""
    import psutil

    cores = usable_cores()
    memory = psutil.virtual_memory()
    quota = cpu_quota()
    limit = f" (a CPU quota of {quota:g})" if quota else ""
    says = f"{cores}{limit}, memory {memory.available / 2**30:.1f} of {memory.total / 2**30:.1f} GiB free"
    if memory.available < cores * 0.7 * 2**30:
        return Finding("warning", says, "a worker takes about 0.7 GiB: use fewer, with --jobs")
    return Finding("ok", says)


def _nearest(path: Path) -> Path:
    """Return the closest existing folder at or above the path."""
    while not path.exists():
        path = path.parent
    return path


def check_home(home: Home) -> Finding:
    """Check that the home can be written to; if there is none, that it can be created. Creates none."""
    if home.exists():
        try:
            home.create()
        except PlatError as error:
            return Finding("error", f"{home.root}: {error.what}", error.fix or "")
        return Finding("ok", f"{home.root}, {counted(len(home.run_ids()), 'run')}")
    parent = _nearest(home.root)
    if parent.is_dir() and os.access(parent, os.W_OK):
        return Finding("ok", f"{home.root} (will be made)")
    return Finding("error", f"cannot be made at {home.root}", "choose another with --home DIR (or PLAT_HOME)")


def check_disk(home: Home) -> Finding:
    """Report the free space on the disk of the home. A warning if less than NEEDED_GB GiB are free, never an error."""
    free = shutil.disk_usage(_nearest(home.root)).free / 2**30
    if free < NEEDED_GB:
        return Finding("warning", f"{free:.1f} GiB free", f"free some space: {NEEDED_GB:.0f} GiB is comfortable")
    return Finding("ok", f"{free:.0f} GiB free")


def check_store(home: Home, uri: str) -> Finding:
    """Check that the store opens, has a known version and accepts writes, or its server answers; create nothing."""
    from plat.store.mlflow import sqlite_connection
    from plat.store.mlflow.connect import check_store as check_opening
    from plat.store.mlflow.store_errors import store_errors
    from plat.store.mlflow.uri import shown_uri, sqlite_path

    shown = shown_uri(uri)
    try:
        path = sqlite_path(uri)
        check_opening(home, uri)
        if path is None:
            return Finding("ok", shown)
        if not path.exists() or path.stat().st_size == 0:
            return Finding("ok", f"{shown} (will be made)")
        with store_errors(uri), closing(sqlite_connection.connect_readonly(path)) as database:
            runs = database.execute("select count(*) from runs").fetchone()[0]
    except PlatError as error:
        return Finding("error", f"{shown}: {error.what}", error.fix or "")
    try:
        with store_errors(uri), closing(sqlite_connection.connect(path, timeout=2)) as database:
            database.execute("begin immediate")  # takes the write lock, and writes nothing
            database.execute("rollback")
    except PlatError as error:
        return Finding("warning", f"{shown}, {runs} MLflow runs, only to be read: {error.what}", error.fix or "")
    return Finding("ok", f"{shown}, {runs} MLflow runs")
