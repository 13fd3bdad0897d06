"""Experiment files and command-line overrides as runs: the public face of `plat.spec`.

    load_experiment(path, overrides)    one file -> Experiment; every run composed, checked and named
    build_run(overrides)                one run without a file, for `plat run`
    config_object(run, trainer)         the typed config that a trainer is called with

Precedence of overrides: the trainer's defaults, `base`, the axes in file order, the command line. An override of an
axis (`seed=3`, `filter=top_p`) replaces that axis's values. Everything raises SpecError; nothing is written.
"""

from __future__ import annotations

import hashlib
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from plat.errors import SpecError
from plat.spec.conflicts import check_conflicts
from plat.spec.file import read_file
from plat.spec.identity import canonical
from plat.spec.overrides import CommandLine, is_sweep, parse_overrides, to_plain, values_of
from plat.spec.paper_file import paper_data
from plat.spec.runs import Run, RunMaker, same_results
from plat.spec.schema import schema_of
from plat.spec.typed import build
from plat.spec.yaml_reader import Document, read
from plat.trainer.api import TrainerSpec

__all__ = ["Experiment", "Run", "build_run", "check_apart", "config_object", "load_experiment", "load_experiments"]

MARK_LENGTH = 40  # characters of the readable part of a mark
SLOW_SECONDS = 1.0  # after which a large matrix is worth a word
Slow = Callable[[Path, int], None]
T = TypeVar("T")
NAME = re.compile(r"\w[\w. -]{0,119}")  # the name of an experiment file, without `.yaml`


@dataclass(frozen=True)
class Experiment:
    """One experiment file under the overrides of a command line.

    runs       the distinct runs, in the order of the matrix
    cells      every position of the matrix, in order: (axis -> label, run id). Several positions may hold the same run
    reference  a bundle with the results of earlier runs, as the file names it: a folder, relative to the file's own
    left_out   axis -> the values that the file lists for it and the command line did not choose
    base       the keys that the file gives a value to for all of its runs, each with its place in the file
    overrides  the overrides of the command line, as they were typed
    is_search  it stands for a search: its runs are those that the trials have asked for so far, and it has no matrix
    mark       a readable text and a hash that distinguish results under these overrides from those of the file as it
               is; "" where there are no overrides
    """

    name: str
    path: Path
    title: str
    paper: str | None
    source: str | None
    report: list[dict[str, Any]]
    claims: list[dict[str, Any]]
    axes: dict[str, list[Any]]
    runs: list[Run]
    paper_data: dict[str, Any]
    scale: str
    cells: list[tuple[dict[str, Any], str]] = field(default_factory=list)
    left_out: dict[str, list[Any]] = field(default_factory=dict)
    base: dict[str, str] = field(default_factory=dict)
    overrides: tuple[str, ...] = ()
    mark: str = ""
    reference: str | None = None
    is_search: bool = False

    @property
    def reference_folder(self) -> Path | None:
        """The bundle of reference results that the file names, whether it is there or not."""
        return None if self.reference is None else self.path.parent / self.reference

    @property
    def report_name(self) -> str:
        """What the report is called: the file's name, and a mark where overrides make it another report."""
        return f"{self.name}@{self.mark}" if self.mark else self.name


def load_experiment(path: str | Path, overrides: Sequence[str] = (), slow: Slow | None = None) -> Experiment:
    """Read one experiment file and make its runs; SpecError, with the place in the file, for anything wrong in it.

    slow  called once, with the file and the number of its runs, when making them takes longer than SLOW_SECONDS
    """
    document = read(path)
    _check_name(document)
    line = _as_axes(parse_overrides(tuple(overrides)), document)
    file = read_file(document, line)
    check_conflicts(file, line)
    cells = list(file.matrix.cells())
    place = file.matrix.where
    alike = frozenset(axis.name for axis in file.matrix.axes if not axis.varies())
    maker = RunMaker(file.base, tuple(line.assignments), alike)
    maker.compose([value for axis in file.matrix.axes for value in axis.values])
    runs: dict[str, Run] = {}
    positions = []
    for cell in _followed(cells, document.path, slow):
        labels = {name: value.label for name, value in cell.items()}
        run = maker.make(labels, [value.assignments for value in cell.values()], place)
        positions.append((run.axes, run.id))
        runs.setdefault(run.id, run)
    if not runs:
        raise SpecError("the matrix is empty: every run is excluded", where=place, mend="remove an `exclude` row")
    scales = dict.fromkeys(str(run.config.get("scale", run.trainer)) for run in runs.values())
    return Experiment(
        name=file.document.path.stem,
        path=file.document.path,
        title=file.title,
        paper=file.paper,
        source=file.source,
        report=file.report,
        claims=file.claims,
        axes={axis.name: axis.labels() for axis in file.matrix.axes},
        runs=list(runs.values()),
        paper_data=paper_data(file.document, file.paper),
        scale="+".join(scales),
        cells=positions,
        left_out={axis.name: axis.left_out() for axis in file.matrix.axes},
        base={assignment.key: assignment.key_place() for assignment in file.base},
        overrides=tuple(overrides),
        mark=_mark(line),
        reference=file.reference,
    )


def _followed(cells: list[T], path: Path, slow: Slow | None) -> Iterator[T]:
    """The cells; `slow` is called where they take long."""
    late = time.monotonic() + SLOW_SECONDS
    for cell in cells:
        yield cell
        if slow is not None and time.monotonic() > late:
            slow(path, len(cells))
            slow = None


def load_experiments(
    paths: Sequence[str | Path], overrides: Sequence[str] = (), slow: Slow | None = None
) -> list[Experiment]:
    """Several files under the same overrides; their names must differ, because results are tagged with them.

    slow  see `load_experiment`
    """
    experiments: list[Experiment] = []
    for path in dict.fromkeys(str(path) for path in paths):
        experiment = load_experiment(path, overrides, slow)
        check_apart(experiment, experiments)
        experiments.append(experiment)
    return experiments


def check_apart(experiment: Experiment, others: Sequence[Experiment]) -> None:
    """SpecError where an experiment has the name of another, or where one of its runs has the id of a different run."""
    for other in others:
        if other.name == experiment.name:
            raise SpecError(
                f"two files are called {other.name!r}", where=f"{other.path} and {experiment.path}", mend="rename one"
            )
    known = {run.id: run for other in others for run in other.runs}
    for run in experiment.runs:
        if not same_results(run, known.get(run.id, run)):
            raise SpecError(
                f"two different configs share the id {run.id}", where=str(experiment.path), mend="change one's seed"
            )


def build_run(overrides: Sequence[str]) -> Run:
    """One run from overrides alone; the overrides are its axes."""
    line = parse_overrides(tuple(overrides))
    place = "command line"
    for assignment in line.assignments:
        if is_sweep(assignment.value):
            raise SpecError(
                f"{assignment.key}: one run takes one value",
                where=assignment.where,
                mend="use an experiment file for several",
            )
    if line.axes:
        raise SpecError("one run has no matrix", where=next(iter(line.axes.values()))[1], mend="write key=value")
    labels = {
        assignment.key: assignment.value
        for assignment in line.assignments
        if not isinstance(assignment.value, (dict, list))
    }
    return RunMaker((), tuple(line.assignments), frozenset(labels)).make(labels, [], place)


def config_object(run: Run | Mapping[str, Any], trainer: TrainerSpec) -> Any:
    """A new config_type instance from a run or its plain config; SpecError when the dict does not fit the schema."""
    values = run.config if isinstance(run, Run) else run
    schema = schema_of(trainer.config_type)
    for key, value in schema.flatten(values):
        schema.check(key, value)
    return build(trainer.config_type, values)


def _check_name(document: Document) -> None:
    """The file's name becomes a folder of the home and a tag of the store."""
    name = document.path.stem
    if not NAME.fullmatch(name):
        raise SpecError(
            f"the file's name {name!r} cannot name its results",
            where=str(document.path),
            mend="rename the file: letters, digits, `_`, `-`, `.` and spaces, beginning with a letter, a digit or `_`",
        )


def _as_axes(line: CommandLine, document: Document) -> CommandLine:
    """Overrides of axes of the file as new values of those axes: `filter=top_p` is `matrix.filter=[top_p]`."""
    data = document.data if isinstance(document.data, dict) else {}
    matrix = data.get("matrix")
    axes_of_file = matrix if isinstance(matrix, dict) else {}
    assignments, axes = [], dict(line.axes)
    for assignment in line.assignments:
        if assignment.key in axes_of_file:
            axes[assignment.key] = (values_of(assignment.value, assignment.where), assignment.where)
        elif is_sweep(assignment.value):
            values = ",".join(str(value) for value in values_of(assignment.value, assignment.where)[:6])
            raise SpecError(
                f"{assignment.key} is not an axis of {document.path.name}",
                where=assignment.where,
                mend=f"write matrix.{assignment.key}=[{values}]",
            )
        else:
            assignments.append(assignment)
    return CommandLine(assignments, {name: (to_plain(values, place), place) for name, (values, place) in axes.items()})


def _mark(line: CommandLine) -> str:
    """A readable part and a hash of what the command line overrides, in whatever order it does; "" for nothing."""
    given: dict[str, Any] = {assignment.key: assignment.value for assignment in line.assignments}
    given |= {f"matrix.{axis}": values for axis, (values, _) in line.axes.items()}
    if not given:
        return ""
    text = canonical(given)
    words = re.sub(r"[^A-Za-z0-9.]+", "-", text.replace("matrix.", "")).strip("-.")
    return f"{words[:MARK_LENGTH].rstrip('-.')}-{hashlib.sha256(text.encode()).hexdigest()[:8]}"
