"""Publish experiment files with their verdicts as one static folder (`plat export --logbook`)."""

from __future__ import annotations

import os
import re
import shlex
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from plat.app.importing import catch_up
from plat.app.messages import noted
from plat.app.report_making import built_report, provenance, tell_changed_code, tell_plan
from plat.characters import masked
from plat.errors import HomeError, os_errors_as
from plat.store.bundle.exporter import experiment_files
from plat.store.disk.durable import replacing
from plat.store.home import Home
from plat.store.mlflow.uri import mask_passwords

if TYPE_CHECKING:
    from plat.spec.expansion.experiment import Experiment
    from plat_analysis.report.report import Report

RESERVED = "experiments"  # the folder of the experiment files


@dataclass(frozen=True)
class Logbook:
    """A logbook that was written.

    done, wanted  runs with a result, and runs that the files ask for; a run of several files counts once
    missing       name of a run without a result -> the reason
    claims        number of verdicts
    hidden        files in which names of this machine or secrets were replaced
    is_whole      False where runs are missing or parts could not be made
    """

    done: int
    wanted: int
    missing: Mapping[str, str]
    claims: int
    hidden: tuple[str, ...]
    is_whole: bool


def write_logbook(home: Home, uri: str, experiments: Sequence[Experiment], folder: Path) -> Logbook:
    """Write the logbook of these experiments into a new folder, whole or not at all.

    Paths of this machine and what looks like a password are replaced in every text. A figure with such a text in it is
    there as SVG alone.

    Raises HomeError if `folder` exists and is not empty, if no run has a result, or if it cannot be written; SpecError
    and PluginError as reports do.
    """
    if os.path.lexists(folder) and not (folder.is_dir() and not folder.is_symlink() and not any(folder.iterdir())):
        raise HomeError(
            "something is in the way of the logbook", where=str(folder), fix="name a new folder with --out DIR"
        )
    from plat_analysis.report.logbook import CLAIMS, claims_data, claims_json, logbook_files

    texts = {f"{RESERVED}/{name}": text for name, text in experiment_files(experiments).items()}
    with noted() as notes:
        is_partial = catch_up(home, uri, experiments) != 0
        earlier = tell_changed_code(home, experiments)
        reports: dict[str, Report] = {}
        for below, one in zip(_folders(experiments), experiments, strict=True):
            command = shlex.join(["plat", "report", _file(one), *one.overrides])
            known = replace(provenance(one), command=command)
            reports[below], frames = built_report(home, uri, known, one, earlier)
            is_partial |= bool(frames.changed)
            tell_plan(home, uri, one)
    runs = {run.id: run for report in reports.values() for run in report.results.runs}
    missing = {run.run.name: run.missing for run in runs.values() if run.missing}
    done = len(runs) - len(missing)
    if not done:
        what = "there is nothing to publish: no run of these files has a result here"
        fix = "`plat sweep` does them; --home DIR (or PLAT_HOME) names another home"
        raise HomeError(what, where=str(home.root), fix=fix)
    names = {name: _file(one) for name, one in zip(reports, experiments, strict=True)}
    again = {name: commands(one, texts[_file(one)]) for name, one in zip(reports, experiments, strict=True)}
    clean = Cleaner(home)
    own = clean({name: text.encode() for name, text in texts.items()})
    files = logbook_files(reports, names, again, clean, clean.changed)
    files[CLAIMS] = claims_json(claims_data(list(reports.values()), notes)).encode()
    files |= own
    _write(clean(files), folder)
    failed = any(report.failures for report in reports.values())
    claims = sum(len(report.claims) for report in reports.values())
    is_whole = not (missing or failed or is_partial)
    return Logbook(done, len(runs), missing, claims, tuple(clean.changed), is_whole)


def _folders(experiments: Sequence[Experiment]) -> list[str]:
    """Return the folder of the files of each experiment: its name without characters that a web address changes."""
    taken = [RESERVED, "index.html", "README.md", "claims.json"]
    for experiment in experiments:
        name = re.sub(r"[^A-Za-z0-9_.@-]+", "-", experiment.report_name).lstrip(".")
        taken.append(next(n for i in range(len(taken) + 1) if (n := f"{name}-{i + 1}" if i else name) not in taken))
    return taken[4:]


def _file(experiment: Experiment) -> str:
    """Return the path of the experiment file in the logbook."""
    return f"{RESERVED}/{experiment.path.stem}.yaml"


def commands(experiment: Experiment, text: str) -> list[str]:
    """Return the commands that make the runs, the report and the verdicts again, in the folder of the logbook.

    text  of the experiment file; the commands `plat import` in its comments come first
    """
    trainers = {run.trainer for run in experiment.runs}
    words = [_file(experiment), *experiment.overrides]
    words += ["--allow-import"] if any(":" in trainer for trainer in trainers) else []
    comments = "\n".join(line[1:].strip() for line in text.splitlines() if line.startswith("#"))
    imports = re.findall(r"^plat import .*", re.sub(r"\s*\\\n\s*", " ", comments), re.MULTILINE)
    check = ["--check"] if any("expect" in claim for claim in experiment.claims) else []
    own = [["sweep", *words], ["report", *words], *([["claims", *words, *check]] if experiment.claims else [])]
    return [*imports, *(shlex.join(["plat", *command]) for command in own)]


# Replace folders of this machine and secrets in what is published.

_BEFORE = r"(?<![\w./<~*)+-])"  # no tag, address, fraction or relative path
_PATH = re.compile(_BEFORE + r"(?!/(?:usr|bin|sbin|dev|etc|proc|sys|lib)/)/(?:[\w.+@%\\-]+/)+(?=[\w.+@%\\-])")
_DRIVE = re.compile(r"\b[A-Za-z]:\\+Users\\+(?:[^\\\s\"'<>|]+\\+)+")
_PICTURE = re.compile(r"(data:image/[^\"']*)")  # text in Base64 may look like a path
TEXTS = (".html", ".md", ".json", ".csv", ".tex", ".svg", ".yaml")


class Cleaner:
    """Replaces folders of this machine by `…/`, and what looks like a secret by `***`, in the texts of files.

    Folders of the system, such as `/usr/bin`, and addresses of the network stay. `changed` has the names of the files
    that it has changed, each once, in order.
    """

    def __init__(self, home: Home) -> None:
        known = {os.path.expanduser("~"), os.getcwd(), str(home.root), str(home.root.resolve()), tempfile.gettempdir()}
        places = "|".join(map(re.escape, sorted(known - {"/"}, key=len, reverse=True)))
        self._places = re.compile(rf"{_BEFORE}(?:{places})(?![\w.-])/?")
        self.changed: dict[str, None] = {}

    def __call__(self, files: Mapping[str, bytes]) -> dict[str, bytes]:
        """Return the files with clean texts; without the PNG and PDF of a figure whose SVG had to be changed."""
        clean = dict(files)
        for name, data in files.items():
            if name.endswith(TEXTS) and (text := self.text(data.decode())) != data.decode():
                clean[name] = text.encode()
                self.changed[name] = None
                for kind in (".png", ".pdf") if name.endswith(".svg") else ():
                    clean.pop(name.removesuffix(".svg") + kind, None)
        return clean

    def text(self, text: str) -> str:
        """Return a text without names of this machine and secrets."""
        parts = _PICTURE.split(text)
        parts[::2] = [self._plain(part) for part in parts[::2]]
        return "".join(parts)

    def _plain(self, text: str) -> str:
        short = _DRIVE.sub("…/", _PATH.sub("…/", self._places.sub("…/", text)))
        return masked(mask_passwords(short))


def _write(files: Mapping[str, bytes], folder: Path) -> None:
    fix = "free some disk space, make the folder above it writable, or name another with --out DIR"
    with os_errors_as(HomeError, "the logbook could not be written", folder, fix):
        folder.parent.mkdir(parents=True, exist_ok=True)
        with replacing(folder) as scratch:
            for name, data in files.items():
                path = scratch / name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(data)
