"""Print a search for `plat tune` and `plat plan`: its report, its plan, and several searches side by side."""

from __future__ import annotations

import os
import shlex
from collections.abc import Sequence
from dataclasses import asdict, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from plat.app import report_making
from plat.app.checking import warn_of_machine
from plat.app.exploring import explorer_beside
from plat.app.importing import load_results, unless_archived
from plat.cli.common import shown
from plat.cli.result import Result
from plat.cli.screen import report_text
from plat.cli.screen.table import table
from plat.extras import is_installed
from plat.store.disk.durable import replace_report
from plat.store.home import Home
from plat.units import counted, duration

if TYPE_CHECKING:
    from plat.search.following import Summary
    from plat.search.search import Search
    from plat.spec.expansion.experiment import Experiment
    from plat_analysis.artifact import Figure, Table
    from plat_analysis.explore.importance import Importance

FEW = 10  # trials; of fewer there is little to explore


def report_search(home: Home, uri: str, summary: Summary, experiment: Experiment) -> str:
    """Write the report of a search beside other reports, log it into the store, and return the text to print.

    Raises HomeError if the report cannot be written. Raises HomeError or StoreError if it cannot be logged; if the home
    or the SQLite store is read-only, a warning is printed instead.
    """
    from plat.store.mlflow.frames import Store
    from plat_analysis.data.results import Results
    from plat_analysis.report.recorded_report import recorded
    from plat_analysis.report.report import Report
    from plat_analysis.report.report_files import report_files, write_files

    search = summary.search
    artifacts = _artifacts(summary)
    values = {key: value for artifact in artifacts for key, value in artifact.values.items()}
    command = shlex.join(["plat", "tune", os.path.relpath(search.path), *search.overrides])
    provenance = replace(report_making.provenance(experiment), command=command)
    results = Results(load_results(home, uri, experiment), experiment)
    built = Report(experiment, results, artifacts, [], values, provenance)
    folder = home.reports / search.name
    pages = explorer_beside(home, uri, built, folder, _importance(home, summary)) if len(summary.trials) >= FEW else {}
    files = report_files(built)
    written = replace_report(partial(write_files, {**files, **pages}), folder)
    with unless_archived(home, uri, "the report is not logged into MLflow"):
        Store(uri, home).log_report(experiment, {name: written[name] for name in files}, recorded(built))
    counts = ", ".join(f"{number} {state}" for state, number in summary.counts().items())
    trials, iterations = counted(len(summary.trials), "trial"), counted(summary.iterations, "iteration")
    lines = [
        f"{search.name}: {trials} ({counts}), {iterations} of training",
        *(["all trials tie: the objectives tell none from another, so the winner is only the first"] * summary.all_tie),
        f"report: {shown(folder / 'report.html')}",
        f"study: optuna trials --storage sqlite:///{shown(home.studies)} --study-name {search.name}",
    ]
    return report_text.rendered(built) + "\n".join(lines) + "\n"


def _importance(home: Home, summary: Summary) -> Importance | None:
    """Return which parameters matter for the first objective; None where Optuna cannot say, or lacks a package."""
    from plat.search.study import Study
    from plat_analysis.explore.importance import of_search

    search, complete = summary.search, summary.counts().get("complete", 0)
    shares = Study(home, search).importance() if complete >= FEW and is_installed("scikit-learn") else {}
    return of_search(shares, complete, str(search.objectives[0])) if shares else None


def _artifacts(summary: Summary) -> list[Table | Figure]:
    """Return the tables of trials and winners, and the figure of the trials."""
    from plat_analysis.figures.trials import trial_values, trials_table, winners_table

    search, trials = summary.search, summary.trials
    objectives = [(str(objective), objective.maximize) for objective in search.objectives]
    wanted = (len(search.seeds), len(search.confirm))
    return [trials_table(trials, objectives), winners_table(summary.winners, wanted), trial_values(trials, objectives)]


def print_summaries(summaries: Sequence[Summary]) -> None:
    """Print the searches of one file side by side: cost, and the first winner's mean value on both kinds of seeds."""
    rows: list[tuple[Any, ...]] = []
    for summary in summaries:
        counts = summary.counts()
        winner = summary.winners[0] if summary.winners else None
        searched, fresh = (_mean(winner.searched), _mean(winner.fresh)) if winner else ("", "")
        pruner = summary.search.pruner.name
        rows.append((pruner, len(summary.trials), counts.get("pruned", 0), summary.iterations, searched, fresh))
    print(table(("pruner", "trials", "pruned", "iterations", "best of the search", "on fresh seeds"), rows))


def render_plan(home: Home, search: Search) -> str:
    """Return what a search would do and its progress, as text."""
    from plat.planning.cost import History

    run = search.first_run
    seconds = History.read(home.history).seconds(run, 0)
    every = search.trials * len(search.seeds)
    time = "unknown until a similar run has been made here" if seconds is None else f"{duration(seconds)} a run"
    seeds, confirm = (", ".join(map(str, listed)) for listed in (search.seeds, search.confirm))
    budget = "" if search.budget is None else f"; no trial begins after {search.budget} iterations of training in all"
    lines = [
        f"{search.title}  [{search.name}]",
        *(f"  {name}: {parameter}" for name, parameter in search.space.items()),
        f"objectives: {', '.join(map(str, search.objectives))}",
        f"sampler: {search.sampler}",
        f"pruner: {search.pruner}",
        f"{counted(search.trials, 'trial')} on seeds {seeds}: at most {counted(every, 'run')}{budget}",
        f"winner confirmed on seeds {confirm}" if confirm else "winner not confirmed: no `confirm`",
        f"time: {time}" + ("" if seconds is None else f", {duration(seconds * every)} of work in all"),
        _standing(home, search),
    ]
    return "\n".join(lines)


def _standing(home: Home, search: Search) -> str:
    """Return the progress of the study, without creating it."""
    if not home.studies.exists():
        return "not begun"
    from plat.search.study import count_states

    counts = count_states(home, search.name)
    return "so far: " + (", ".join(f"{number} {state}" for state, number in counts.items()) or "no trial")


def _mean(values: Sequence[float]) -> str:
    return f"{sum(values) / len(values):.4g}" if values else "—"


def plan_searches(arguments: Sequence[str] | None, home: Home) -> Result:
    """Return plan and progress of the searches that `arguments` name. Raises what `load_searches` raises."""
    from plat.app.searching import load_searches

    searches = load_searches(arguments)
    warn_of_machine(searches[0].corner_runs(), home)
    plans = [render_plan(home, search) for search in searches]
    data = [
        {"name": one.name, "trials": one.trials, "seeds": list(one.seeds), "confirm": list(one.confirm), "text": plan}
        for one, plan in zip(searches, plans, strict=True)
    ]
    text = "\n\n".join(plans) + f"\nhome: {shown(home.root)}"
    return Result({"home": str(home.root), "searches": data}, text)


def search_data(home: Home, summary: Summary) -> dict[str, Any]:
    """Return a search that ended, as `SearchEnd`."""
    return {
        "name": summary.search.name,
        "counts": summary.counts(),
        "iterations": summary.iterations,
        "all_tie": summary.all_tie,
        "winners": [asdict(winner) for winner in summary.winners],
        "left_out": summary.left_out,
        "report": str(home.reports / summary.search.name / "report.html"),
    }
