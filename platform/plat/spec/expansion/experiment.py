"""Turn experiment files and command-line overrides into runs.

Precedence of overrides, lowest first: the trainer's defaults, `base`, the axes in file order, the command line. An
override of an axis (`seed=3`, `task=digits`) replaces that axis's values. Errors are SpecError; nothing is written.
"""

from __future__ import annotations

import hashlib
import re
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from plat.errors import SpecError, UnknownTrainer
from plat.spec.composition.schema import build, schema_of
from plat.spec.expansion.conflicts import check_conflicts
from plat.spec.expansion.decide import Decide, taken, with_seeds
from plat.spec.expansion.matrix import AxisValue, Matrix
from plat.spec.expansion.run import Run, RunMaker, same_results
from plat.spec.identity.run_identity import canonical
from plat.spec.reading.experiment_file import check_name, read_file
from plat.spec.reading.overrides import CommandLine, is_sweep, parse_overrides, to_plain, values_of
from plat.spec.reading.paper_file import paper_data
from plat.spec.reading.yaml_reader import Document, read
from plat.suggest import nearest, suggest
from plat.trainer.api import Trainer
from plat.trainer.finding import find_trainer
from plat.words.metric_names import SUCCESS

__all__ = ["Experiment", "Run", "build_run", "check_apart", "config_object", "load_experiment", "load_experiments"]

MARK_LENGTH = 40  # characters of the readable part of a mark
SLOW_SECONDS = 1.0  # after this time `slow` is called
Slow = Callable[[Path, int], None]


@dataclass(frozen=True)
class Experiment:
    """One experiment file under the overrides of a command line.

    axes       axis -> its labels, as the command line chose them
    runs       the distinct runs, in the order of the matrix
    scale      the scales of the runs, joined by "+"; "" if none has a scale
    cells      every position of the matrix, in order: (axis -> label, run id). Several positions may share a run
    reference  the folder of a bundle with earlier results, relative to the file's folder
    left_out   axis -> the values of the file that the command line did not choose, in no fixed order
    added      the axes of `axes` with several values that the command line added to those of the file
    base       the keys that `base` sets, each with its position in the file
    changes    axis -> label -> the keys that this value sets, without those that it sets as `base` does
    overrides  the overrides of the command line, as typed
    order      "seeds": the runs are executed seed by seed; "file": in the order of the matrix
    is_search  True for a search: the runs are those that its trials have asked for so far, and there is no matrix
    question, prediction, conclusion, evidence   what the file says in words, "" if nothing; shown on the report
    mark       readable text and hash of the overrides, which separates these results from those of the plain file;
               "" without overrides; seeds that are added to those of the file do not count
    decide     the looks at which claims are judged while seeds are added; None without
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
    added: tuple[str, ...] = ()
    base: dict[str, str] = field(default_factory=dict)
    changes: dict[str, dict[Any, tuple[str, ...]]] = field(default_factory=dict)
    overrides: tuple[str, ...] = ()
    mark: str = ""
    reference: str | None = None
    order: str = "seeds"
    is_search: bool = False
    question: str = ""
    prediction: str = ""
    conclusion: str = ""
    evidence: str = ""
    decide: Decide | None = None

    @property
    def evidence_in_words(self) -> str:
        """Return what the runs are: `evidence` of the file, or of its paper for runs below the paper's scale."""
        is_smaller = bool(self.paper) and self.scale != "paper"
        return self.evidence or (str(self.paper_data.get("evidence", "")) if is_smaller else "")

    @property
    def reference_folder(self) -> Path | None:
        """The bundle of reference results that the file names. It may not exist."""
        return None if self.reference is None else self.path.parent / self.reference

    @property
    def report_name(self) -> str:
        """Return the name of the report: `name`, or `name@mark` if there is a mark, even if no run's id changes."""
        return f"{self.name}@{self.mark}" if self.mark else self.name


def load_experiment(
    path: str | Path,
    overrides: Sequence[str] = (),
    slow: Slow | None = None,
    recorded: Callable[[Mapping[str, Any]], Run] | None = None,
) -> Experiment:
    """Read one experiment file and make its runs. Raises SpecError, with the position in the file, for any mistake.

    slow      called once, with the file and its number of runs, if making them takes longer than SLOW_SECONDS
    recorded  returns the run of a cell by its labels, in place of making it: for a trainer that is not installed
    """
    document = read(path)
    check_name(document)
    decide, line = taken(document, parse_overrides(tuple(overrides)))
    line = _as_axes(line, document)
    file = read_file(document, line)
    if decide is not None:
        decide, seeds = with_seeds(decide, file.matrix)
        file = read_file(document, CommandLine(line.assignments, {**line.axes, "seed": (list(seeds), decide.where)}))
    check_conflicts(file, line)
    cells = list(file.matrix.cells())
    place = file.matrix.where
    alike = frozenset(axis.name for axis in file.matrix.axes if not axis.varies())
    maker = RunMaker(file.base, tuple(line.assignments), alike, document.path.parent)
    runs: dict[str, Run] = {}
    positions = []
    late = time.monotonic() + SLOW_SECONDS
    for cell in cells:
        if slow is not None and time.monotonic() > late:
            slow(document.path, len(cells))
            slow = None
        labels = {name: value.label for name, value in cell.items()}
        assignments = [value.assignments for value in cell.values()]
        run = maker.make(labels, assignments, place) if recorded is None else recorded(labels)
        positions.append((run.axes, run.id))
        runs.setdefault(run.id, run)
    if not runs:
        raise SpecError("the matrix is empty: every run is excluded", where=place, fix="remove an `exclude` row")
    _check_added(file.matrix, positions)
    paper = file.header["paper"]
    scales = dict.fromkeys(str(scale) for run in runs.values() if (scale := run.config.get("scale")))
    return Experiment(
        name=document.path.stem,
        path=document.path,
        **file.header,
        axes={axis.name: axis.labels() for axis in file.matrix.axes},
        runs=list(runs.values()),
        paper_data=paper_data(document, paper) if paper is not None else {},
        scale="+".join(scales),
        cells=positions,
        left_out={axis.name: axis.left_out() for axis in file.matrix.axes},
        added=tuple(axis.name for axis in file.matrix.axes if axis.is_added and len(axis.values) > 1),
        base={assignment.key: assignment.key_place() for assignment in file.base},
        changes=_changes(cells, {assignment.key: assignment.value for assignment in file.base}),
        overrides=tuple(overrides),
        mark=_mark(line, file.matrix, [text for text in overrides if text.startswith("decide")]),
        decide=decide,
    )


def _changes(
    cells: Iterable[Mapping[str, AxisValue]], base: Mapping[str, Any]
) -> dict[str, dict[Any, tuple[str, ...]]]:
    """Return axis -> label -> the keys that the value sets otherwise than `base`.

    A key below another one, as `filter.value` below the group `filter`, is left out: the group stands for both.
    """
    found: dict[str, dict[Any, tuple[str, ...]]] = {}
    for cell in cells:
        for axis, value in cell.items():
            if value.label not in found.setdefault(axis, {}):
                keys = {each.key for each in value.assignments if each.key not in base or each.value != base[each.key]}
                own = (key for key in keys if not any(key.startswith(f"{other}.") for other in keys))
                found[axis][value.label] = tuple(sorted(own))
    return found


def load_experiments(
    paths: Sequence[str | Path], overrides: Sequence[str] = (), slow: Slow | None = None
) -> list[Experiment]:
    """Read several files, each once, under the same overrides. Raises SpecError as `load_experiment`.

    Their names must differ, because results are tagged with them: see `check_apart`. `slow`: see `load_experiment`.
    """
    experiments: list[Experiment] = []
    for path in dict.fromkeys(str(path) for path in paths):
        experiment = load_experiment(path, overrides, slow)
        check_apart(experiment, experiments)
        experiments.append(experiment)
    return experiments


def check_apart(experiment: Experiment, others: Sequence[Experiment]) -> None:
    """Raise SpecError if an experiment shares its name with another, or a run id with a different run."""
    for other in others:
        if other.name == experiment.name:
            what = f"two files are called {other.name!r}"
            raise SpecError(what, where=f"{other.path} and {experiment.path}", fix="rename one")
    known = {run.id: run for other in others for run in other.runs}
    for run in experiment.runs:
        if not same_results(run, known.get(run.id, run)):
            what = f"two different configs share the id {run.id}"
            raise SpecError(what, where=str(experiment.path), fix="change one's seed")


def check_metric(name: str, runs: Iterable[Run], also: Iterable[str] = ()) -> None:
    """Raise SpecError, with the nearest name, if no run logs the metric `name`. `success` is always valid.

    Every name is valid if the trainer of one of the runs does not list its metrics, or is not installed. The names in
    `also` are only suggested in the error: they are not accepted here.
    """
    headlines = {run.trainer: run.headline for run in runs}
    try:
        trainers = [find_trainer(trainer) for trainer in headlines]
    except UnknownTrainer:
        return
    if name == SUCCESS or not all(trainer.metrics for trainer in trainers):
        return
    logged = list(dict.fromkeys([*headlines.values(), *(metric for trainer in trainers for metric in trainer.metrics)]))
    if any(fnmatchcase(name, metric) for metric in logged):
        return
    names = [*also, SUCCESS, *logged]
    same_prefix = [metric for metric in names if metric.startswith(name.partition("/")[0] + "/")]
    shown = names if nearest(name, names) else same_prefix or names
    who = ", ".join(trainer.name for trainer in trainers)
    raise SpecError(f"no run logs the metric {name!r} (trainer: {who})", fix=suggest(name, shown, "metrics"))


def build_run(overrides: Sequence[str]) -> Run:
    """Return the run of these overrides, without an experiment file.

    Its `axes` are the overrides, except lists and mappings, and the seed if its config has one. Raises SpecError for a
    wrong override, for several values (`a,b`, a range), and for `matrix.AXIS=...`.
    """
    line = parse_overrides(tuple(overrides))
    for assignment in line.assignments:
        if is_sweep(assignment.value):
            what = f"{assignment.key}: one run takes one value"
            raise SpecError(what, where=assignment.where, fix="use an experiment file for several")
    if line.axes:
        raise SpecError("one run has no matrix", where=next(iter(line.axes.values()))[1], fix="write key=value")
    plain = [assignment for assignment in line.assignments if not isinstance(assignment.value, (dict, list))]
    labels = {assignment.key: assignment.value for assignment in plain}
    return RunMaker((), tuple(line.assignments), frozenset(labels)).make(labels, [], "command line")


def config_object(run: Run | Mapping[str, Any], trainer: Trainer) -> Any:
    """Return a new config_type instance for a run or a plain config. Raises SpecError if it does not fit the schema."""
    values = run.config if isinstance(run, Run) else run
    schema = schema_of(trainer.config_type)
    for key, value in schema.flatten(values):
        schema.check(key, value)
    return build(trainer.config_type, values)


def _as_axes(line: CommandLine, document: Document) -> CommandLine:
    """Turn overrides of the file's axes, and overrides with several values, into axes.

    `task=digits` becomes `matrix.task=[digits]` if `task` is an axis, and `train.lr=1e-3,1e-4` becomes
    `matrix.train.lr=[1e-3,1e-4]`.
    """
    matrix = document.data.get("matrix") if isinstance(document.data, dict) else None
    axes_of_file = matrix if isinstance(matrix, dict) else {}
    assignments, axes = [], dict(line.axes)
    for assignment in line.assignments:
        if assignment.key in axes_of_file or is_sweep(assignment.value):
            axes[assignment.key] = (values_of(assignment.value, assignment.where), assignment.where)
        else:
            assignments.append(assignment)
    return CommandLine(assignments, {name: (to_plain(values, place), place) for name, (values, place) in axes.items()})


def _check_added(matrix: Matrix, positions: Sequence[tuple[dict[str, Any], str]]) -> None:
    """Raise SpecError for an axis of the command line that changes no run, such as a time limit."""
    for axis in matrix.axes:
        if not axis.is_added or len(axis.values) < 2:
            continue
        runs: dict[str, set[str]] = {}
        for labels, run_id in positions:
            runs.setdefault(repr({name: labels[name] for name in labels if name != axis.name}), set()).add(run_id)
        if all(len(ids) == 1 for ids in runs.values()):
            what = f"{axis.name} makes no axis: runs with its values are the same run"
            raise SpecError(what, where=axis.where, fix=f"give it one value: {axis.name}={axis.values[0].label}")


def _mark(line: CommandLine, matrix: Matrix, deciding: Sequence[str]) -> str:
    """Return a readable text and a hash of the command line's overrides, independent of their order; "" without any.

    deciding  the overrides of `decide`

    Seeds that are added to those of the file do not count, so a report that gets more of them stays where it is.
    """
    added = {axis.name for axis in matrix.axes if axis.name == "seed" and axis.known and not axis.left_out()}
    given: dict[str, Any] = {assignment.key: assignment.value for assignment in line.assignments}
    given |= {f"matrix.{axis}": values for axis, (values, _) in line.axes.items() if axis not in added}
    given |= dict(text.split("=", 1) for text in deciding)
    if not given:
        return ""
    text = canonical(given)
    words = re.sub(r"[^A-Za-z0-9.]+", "-", text.replace("matrix.", "")).strip("-.")
    return f"{words[:MARK_LENGTH].rstrip('-.')}-{hashlib.sha256(text.encode()).hexdigest()[:8]}"


# The metrics that the claims of an experiment file are about.


def claimed(claims: Iterable[Mapping[str, Any]]) -> list[str]:
    """Return the metrics that claims measure, each once."""
    measures = (claim.get(key) for claim in claims for key in ("measure", "measures", "metric"))
    found = (_named(measure) for measure in measures if measure is not None)
    return list(dict.fromkeys(name for names in found for name in names))


def _named(measure: Any) -> list[str]:
    if isinstance(measure, str):
        return [measure]
    if isinstance(measure, Mapping):
        inner = [measure["metric"]] if "metric" in measure else list(measure.values())
        return [name for one in inner for name in _named(one)]
    return [name for one in measure for name in _named(one)] if isinstance(measure, list) else []
