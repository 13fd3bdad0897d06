"""`plat doctor`: check this machine, one line for each check; an error makes the exit code 2."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from plat.app.checking import check_kept_files, check_results
from plat.cli.common import HomeOption, StoreOption, verb
from plat.cli.result import Result
from plat.cli.schemas.others import DoctorData
from plat.cli.screen.table import fitted
from plat.errors import PlatError
from plat.plugins.doctor import Finding
from plat.plugins.loading import groups, load_plugin, published
from plat.processes.own_process import cpu_quota, usable_cores
from plat.store.home import Home
from plat.units import counted
from plat.user_code import user_code

CHECKS = "plat.doctor"  # the group of entry points
NEEDED_GB = 1.0  # a table of small runs with its store takes a fraction of this


@verb(DoctorData)
def doctor(
    deep: Annotated[bool, typer.Option("--deep", help="Also compare the store and artifacts with the runs.")] = False,
    fix: Annotated[bool, typer.Option("--fix", help="As --deep, and repair a SQLite store; keeps a copy.")] = False,
    home: HomeOption = None,
    store: StoreOption = None,
) -> Result:
    """Check what works on this machine.

    Python, packages, plug-ins and what they check, cores, home, disk and store. Exit code 2 when something is broken.
    """
    place = Home.find(home)
    uri = place.store_uri(store)
    checks: dict[str, Callable[[], Finding]] = {
        "python": check_python,
        "packages": check_packages,
        "plugins": check_plugins,
        "cores": check_cores,
        "home": lambda: check_home(place),
        "disk": lambda: check_disk(place),
    }
    checks |= {name: partial(check_of_plugin, name) for name in published(CHECKS)}
    findings = [(name, check()) for name, check in checks.items()]
    results: list[tuple[str, Finding]] = []
    if deep or fix:  # before the store is checked, so that the check sees the fixed store
        results += [("results", finding) for finding in check_results(place, uri, fix)]
        results += [("artifacts", finding) for finding in check_kept_files(place)]
    findings += [("store", check_store(place, uri)), *results]
    lines = []
    for name, finding in findings:
        lines.append(fitted(f"{finding.level:8} {name:9} {finding.says}"))
        lines += [fitted(f"{'':18} fix: {finding.fix}")] if finding.fix else []
    data = {"checks": [{"name": name, **finding._asdict()} for name, finding in findings]}
    code = 2 if any(finding.level == "error" for _, finding in findings) else 0
    return Result(data, "\n".join(lines), code)


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
    """Import every published plug-in, and list their names by group."""
    from importlib.metadata import entry_points

    found, broken = [], []
    for group in groups():
        points = sorted(entry_points(group=group), key=lambda point: point.name)
        names = ", ".join(point.name for point in points)
        found.append(f"{len(points)} {group.removeprefix('plat.')} ({names})")
        for point in points:
            try:
                point.load()
            except Exception as error:
                broken.append(f"{point.name} in {group} ({type(error).__name__}: {error})")
    if broken:
        return Finding("error", "; ".join(broken), "fix or uninstall the package that publishes it")
    return Finding("ok", ", ".join(found))


def check_of_plugin(name: str) -> Finding:
    """Call the check that a plug-in publishes; an error if it cannot be loaded or fails."""
    try:
        check = load_plugin(CHECKS, name)
        with user_code(f"the check {name!r} of {CHECKS} failed"):
            return Finding(*check())
    except PlatError as error:
        return Finding("error", f"{error.what} ({error.where})" if error.where else error.what, error.fix or "")


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
    from plat.store.mlflow.connect import check_store as check_opening
    from plat.store.mlflow.sqlite_file import check_file, has_content
    from plat.store.mlflow.stored_runs import stored_runs
    from plat.store.mlflow.uri import shown_uri, sqlite_path

    shown = shown_uri(uri)
    try:
        path = sqlite_path(uri)
        check_opening(home, uri)
        if path is None:
            return Finding("ok", shown)
        if not has_content(path):
            return Finding("ok", f"{shown} (will be made)")
        runs = counted(len(stored_runs(home, uri)), "run")
    except PlatError as error:
        return Finding("error", f"{shown}: {error.what}", error.fix or "")
    try:
        check_file(path, timeout=2, to_write=True)
    except PlatError as error:
        return Finding("warning", f"{shown}, {runs}, only to be read: {error.what}", error.fix or "")
    return Finding("ok", f"{shown}, {runs}")
