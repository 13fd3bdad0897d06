"""Select the runs that a command line names (by file, name, id or condition), and the columns of their table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from plat.app.entries import SHOWN, entries_asked, entry_in
from plat.app.home_runs import find_run
from plat.app.loading import load_experiments
from plat.app.run_facts import FIELDS, METRIC, RunFacts
from plat.app.run_selection import Selection, parse_where
from plat.errors import SpecError
from plat.spec.expansion.experiment import claimed
from plat.store.home import Home
from plat.store.run_directory.paths import RunPaths
from plat.suggest import suggest

if TYPE_CHECKING:
    from plat.spec.expansion.experiment import Experiment

BEFORE_AXES = ("run", "state")
AFTER_AXES = ("attempts", "iteration", "success", "best", "seconds")
MOST_METRICS = 2  # shown of runs without a success or a headline metric
OWN = ("script.metric", "script.success")  # keys that name the headline metric of a script


def choose_runs(
    home: Home, arguments: Sequence[str] | None, where: Sequence[str] | None, verb: str
) -> tuple[list[RunFacts], list[Experiment]]:
    """Return the named runs and the runs of the named files that satisfy the conditions, and these files' experiments.

    Without arguments, select among all runs of the home. Raises SpecError if neither `arguments` nor `where` is given
    (the message names `verb`), or one of them is wrong. `arguments` are names of runs, experiment files, and overrides
    of these files; `where` are conditions as --where takes them.
    """
    if not arguments and not where:
        fix = "name runs or experiment files, or give a condition such as --where state=failed"
        raise SpecError(f"`plat {verb}` needs to know which runs", where=f"the command line: plat {verb}", fix=fix)
    selection = parse_where(where)
    named, others = named_runs(home, arguments)
    experiments = load_experiments(others, required=False, home=str(home.root), with_searches=True)
    everything = {paths.id: RunFacts(home, entry_in(paths)) for paths in named}
    if experiments or not named:
        for entry in entries_asked(home, experiments):
            everything.setdefault(entry.id, RunFacts(home, entry))
    return selected(list(everything.values()), selection, experiments), experiments


def named_runs(home: Home, arguments: Sequence[str] | None) -> tuple[list[RunPaths], list[str]]:
    """Return (the named runs, the other arguments). Raises SpecError if a name fits no run or several.

    An argument counts as a name unless it contains "=", ends with .yaml or .yml, or is the path of a file.
    """
    names: list[str] = []
    others: list[str] = []
    for text in arguments or ():
        is_other = "=" in text or text.endswith((".yaml", ".yml")) or Path(text).is_file()
        (others if is_other else names).append(text)
    return [find_run(home, name) for name in names], others


def selected(runs: Sequence[RunFacts], selection: Selection, experiments: Sequence[Experiment] = ()) -> list[RunFacts]:
    """Return the runs that satisfy all conditions. Raises SpecError for a key or value that no run has.

    Several positions of a matrix can share one run. That run is selected if the axis values of one of its positions in
    `experiments` satisfy the conditions. For a run that is in none of `experiments`, only the axis values that its
    entry records are compared.
    """
    if not selection.conditions:
        return list(runs)
    asked: dict[str, list[Mapping[str, Any]]] = {}
    for axes, run_id in (cell for experiment in experiments for cell in experiment.cells):
        asked.setdefault(run_id, []).append(axes)
    positions = {facts.entry.id: asked.get(facts.entry.id) or [facts.entry.axes] for facts in runs}
    names = list(dict.fromkeys(axis for of_run in positions.values() for axes in of_run for axis in axes))

    def values_of(key: str) -> Sequence[Any]:
        """Return the valid values of a key: all states for `state`, else the runs' values of an axis or config key.

        [] for other fields and metrics, which may have any value.
        """
        if key == "state":
            return SHOWN
        if key in names:
            return [facts.value(key, axes) for facts in runs for axes in positions[facts.entry.id]]
        has_any_value = key in FIELDS or key in first.shown or "/" in key
        return [] if has_any_value else [facts.config_value(key) for facts in runs]

    if runs:
        first = runs[0]
        known = [*names, *FIELDS, *first.shown]
        selection.check(known, lambda: [*first.config_keys(), *first.metric_names()], values_of)
    return [
        facts
        for facts in runs
        if any(selection.holds(partial(facts.value, axes=axes)) for axes in positions[facts.entry.id])
    ]


def table_of_runs(
    home: Home,
    experiments: Sequence[Experiment],
    where: Sequence[str] | None,
    columns: str | None,
    sort: str | None = None,
) -> tuple[list[str], list[RunFacts], bool]:
    """Return the columns of a table of runs, its runs, and True if there is no run even without the conditions.

    experiments  the files whose runs are asked for; empty: all runs of the home
    where        conditions as of `--where`
    columns      as of `--columns`, where `+NAME` adds one. Default: the usual columns that have a value, the axes that
                 vary, and for runs of scripts their step, `script.metric` and the metrics of claims, else two
    sort         a column to sort by; `-KEY` reverses the order. Runs without a value are always last. Default: the
                 order of the files; without a file the order of the names

    Raises SpecError for a condition or column that no run has.
    """
    selection = parse_where(where)
    everything = [RunFacts(home, entry) for entry in entries_asked(home, experiments)]
    chosen = selected(everything, selection, experiments)
    asked = [name.strip() for name in (columns or "").split(",") if name.strip()]
    named = [name for name in asked if not name.startswith("+")] or _usual_columns(chosen or everything, experiments)
    shown = list(dict.fromkeys([*named, *(name.removeprefix("+") for name in asked if name.startswith("+"))]))
    _check_columns([*(name.removeprefix("+") for name in asked), *([sort.lstrip("-")] if sort else [])], everything)
    if sort or not experiments:
        chosen = _sorted_by(sort or "run", chosen)
    return shown, chosen, not everything


def _usual_columns(runs: Sequence[RunFacts], experiments: Sequence[Experiment]) -> list[str]:
    varying = [axis for axis in _axes_of(runs) if len({str(facts.entry.axes.get(axis)) for facts in runs}) > 1]
    valued = [name for name in AFTER_AXES if any(facts.value(name) is not None for facts in runs)]
    if any(facts.config_value("script.metrics") is None for facts in runs):  # not of scripts alone
        metrics = [] if "success" in valued else next((names for facts in runs if (names := facts.metric_names())), [])
        return [*BEFORE_AXES, *varying, *valued, *metrics[:MOST_METRICS]]
    valued = ["step" if name == "iteration" else name for name in valued if name != "success"]
    own = [name for facts in runs for key in OWN if (name := facts.config_value(key))]
    metrics = next((names for facts in runs if (names := facts.metric_names())), [])
    about = [name for experiment in experiments for name in claimed(experiment.claims) if name in metrics]
    first = list(dict.fromkeys([*own, *about])) or metrics[:MOST_METRICS]
    hides = {*_axes_of(runs), *FIELDS}
    return [*BEFORE_AXES, *varying, *valued, *(f"{METRIC}{name}" if name in hides else name for name in first)]


def _check_columns(names: Sequence[str], runs: Sequence[RunFacts]) -> None:
    """Raise SpecError for a column that is neither a field nor an axis, config key or metric of any run."""
    known = [*FIELDS, *dict.fromkeys(label for facts in runs for label in facts.shown), *_axes_of(runs)]
    for name in names:
        metric = name.removeprefix("max:").removeprefix("min:").removeprefix(METRIC)
        if name in known or not runs or any(facts.config_value(name) is not None for facts in runs):
            continue
        metrics = list(dict.fromkeys(key for facts in runs for key in facts.metric_names()))
        if metric not in metrics:
            fix = suggest(metric, [*known, *metrics], "columns")
            if " " in name:
                fix = f"columns have commas between them: --columns {','.join(name.split())}"
            raise SpecError(f"there is no column {name!r}", where="the command line", fix=fix)


def _sorted_by(key: str, runs: Sequence[RunFacts]) -> list[RunFacts]:
    """Sort by a column: numbers, then texts; `-KEY` reverses that order. Runs without a value are always last."""
    name = key.removeprefix("-")
    values = {id(facts): facts.value(name) for facts in runs}
    with_value = [facts for facts in runs if values[id(facts)] is not None]
    without = [facts for facts in runs if values[id(facts)] is None]
    rank = lambda facts: _rank(values[id(facts)])  # noqa: E731
    return [*sorted(with_value, key=rank, reverse=key.startswith("-")), *without]


def _rank(value: Any) -> tuple[int, float, str]:
    return (0, float(value), "") if isinstance(value, int | float) else (1, 0.0, str(value))


def _axes_of(runs: Sequence[RunFacts]) -> list[str]:
    """Return the axes of these runs, in the order of the files."""
    return list(dict.fromkeys(axis for facts in runs for axis in facts.entry.axes))
