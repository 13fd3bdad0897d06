"""The report of several experiment files: each has its own, and all share one page.

A file with a mistake is named on stderr and on the page, and the others are made.
"""

from __future__ import annotations

import hashlib
import os
import shlex
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from plat.cli import reports
from plat.cli.common import load_experiments, split
from plat.errors import PlatError
from plat.store.home import Home
from plat.store.report_folder import write_whole

if TYPE_CHECKING:
    from plat.spec.experiment import Experiment
    from plat_analysis.report.report import Report

LONGEST_NAME = 80  # characters of the folder of a joint page
T = TypeVar("T")


@dataclass
class Tolerant:
    """Calls that may fail one by one. `failed` are the errors, in the order in which they came."""

    failed: list[PlatError] = field(default_factory=list)

    def call(self, function: Callable[[], T]) -> T | None:
        """What the function returns; None where it raises a PlatError, which is shown on stderr."""
        try:
            return function()
        except PlatError as error:
            print(error.render(), file=sys.stderr)
            self.failed.append(error)
            return None


def load_each(arguments: Sequence[str], home: str | None, tolerant: Tolerant) -> list[Experiment]:
    """The experiments of the files that can be read. PlatError, that of the first file, where none can."""
    from plat.spec.experiment import check_apart

    files, overrides = split(arguments)
    loaded: list[Experiment] = []

    def load(file: Path) -> Experiment:
        (experiment,) = load_experiments([str(file), *overrides], home=home)
        check_apart(experiment, loaded)
        return experiment

    for file in dict.fromkeys(files):
        if (experiment := tolerant.call(lambda file=file: load(file))) is not None:  # type: ignore[misc]
            loaded.append(experiment)
    if not loaded:
        raise tolerant.failed[0]
    return loaded


def write_joint(
    home: Home, built: Sequence[Report], failed: Sequence[PlatError], arguments: Sequence[str], out: Path | None
) -> str:
    """Write the page of all reports, and say where it is."""
    from plat_analysis.plugins.failure import Failure
    from plat_analysis.report.files import joint_files, write_files

    if out is None and reports.is_read_only(home):
        return ""
    folder = out or home.create().reports / joint_name([report.experiment for report in built])
    failures = [Failure(error.what, _relative(str(error.where or "")), error.mend or "") for error in failed]
    write = partial(write_files, joint_files(built, failures, _command(arguments)))
    written = write(out) if out else write_whole(write, folder)
    return f"all of them on one page: {reports.shown(written['report.html'])}\n"


def joint_name(experiments: Sequence[Experiment]) -> str:
    """`table4+table6`, with a mark where overrides were given. No file can be called so: its name has no `+`.

    Of many files it is the first name, how many more there are, and a hash of all names.
    """
    names = [experiment.name for experiment in experiments]
    mark = f"@{experiments[0].mark}" if experiments[0].mark else ""
    name = "+".join(names)
    if len(name) > LONGEST_NAME:
        digest = hashlib.sha256("+".join(sorted(names)).encode()).hexdigest()[:8]
        name = f"{names[0][:40]}+{len(names) - 1}-more-{digest}"
    return name + mark


def _command(arguments: Sequence[str]) -> str:
    """The command that makes the page again, without absolute paths."""
    files, overrides = split(arguments)
    return shlex.join(["plat", "report", *map(os.path.relpath, files), *overrides])


def _relative(place: str) -> str:
    """A place with its path as it may be typed here: a page holds no absolute path."""
    return place.replace(f"{os.getcwd()}{os.sep}", "")
