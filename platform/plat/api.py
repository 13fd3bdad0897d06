"""The Python API: what the command line does, as functions that return data.

The functions print nothing and never exit the process. They raise the errors of `plat.errors` (what, where, fix) and
send warnings, notes and progress to the logger `plat`. Every function takes the path of an experiment file (or a list
of them) and overrides `key=value` as on the command line (a list, or one text). It finds `home` and `store` as the
command line does, unless given.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, ParamSpec, TypeVar

from plat.errors import SpecError
from plat.store.home import Home

if TYPE_CHECKING:
    import pandas as pd

    from plat.app.entries import Entry
    from plat.app.report_making import MadeReport
    from plat.dispatch.sweep_ends import SweepReport
    from plat.planning.plan import Plan
    from plat.search.following import Summary
    from plat.spec.expansion.experiment import Experiment, Run
    from plat.store.mlflow.frames import Frames

Paths = str | Path | Sequence[str | Path]
Texts = str | Sequence[str]
P = ParamSpec("P")
T = TypeVar("T")


def _in_our_words(function: Callable[P, T]) -> Callable[P, T]:
    """Raise SpecError for an argument of a wrong type, and the command line's error for one of the operating system."""

    @functools.wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> T:
        for name, value in inspect.signature(function).bind(*args, **kwargs).arguments.items():
            _check_argument(name, value)
        try:
            return function(*args, **kwargs)
        except OSError as error:
            from plat.app.messages import in_our_words

            known = in_our_words(error)
            if known is None:
                raise
            raise known from error

    return call


def _check_argument(name: str, value: object) -> None:
    """Raise SpecError for a value of the wrong type. None is right where a function has it as default."""
    kind, wanted = {
        "jobs": (int, "a whole number above 0"),
        **dict.fromkeys(("wait", "steal", "record"), (bool, "True or False")),
        **dict.fromkeys(("file", "files", "out", "home"), (str | Path, "a path")),
    }.get(name, (str, "text"))
    lists = name in ("files", "overrides", "where", "columns")
    items = value if lists and isinstance(value, list | tuple) else [value]
    right = all(isinstance(item, kind) for item in items) and (name != "jobs" or (type(value) is int and value > 0))
    if not right and (value is not None or name in ("file", "files")):
        fix = f"give {wanted}{', or a list' if lists else ''}"
        raise SpecError(f"{name} is {value!r:.60}", where=f"the argument {name}", fix=fix)


@_in_our_words
def plan(files: Paths, overrides: Texts = (), *, home: str | None = None, jobs: int | None = None) -> Plan:
    """Return the runs that a sweep would make and what they cost. Writes nothing.

    `str(plan)` is what `plat plan` prints. `plan.rows` has each run with its state, `plan.left` those not done.
    Raises SpecError for a file or an override that cannot work.

    >>> made = plat.plan("experiments/quickstart.yaml", ["scale=smoke"])
    >>> len(made.rows), made.counts()["missing"]
    (10, 10)
    """
    from plat.app.checking import plan_checked

    return plan_checked(_experiments(files, overrides, home), Home.find(home).checked(), _listed(overrides), jobs)


@_in_our_words
def sweep(
    files: Paths,
    overrides: Texts = (),
    *,
    on: str = "local",
    wait: bool | None = None,
    jobs: int | None = None,
    steal: bool = False,
    home: str | None = None,
    store: str | None = None,
) -> SweepReport:
    """Run what is missing, record it in the store, and return how each run ended.

    on     the dispatcher: local, slurm, ray or a plug-in; `cluster=NAME` among the overrides chooses its profile
    wait   wait until every run has ended; False leaves the runs to the scheduler. None: False for slurm, else True
    jobs   number of runs at once; None: as many as the cores allow
    steal  also take over runs whose process cannot be checked

    `ends` of the result has a state, an outcome and a reason for each run id. A failed run raises nothing. Raises
    SpecError, before anything runs, for a file, override or setting that cannot work. After Ctrl-C or SIGTERM the runs
    save their state, and the call raises KeyboardInterrupt; the same call resumes.

    >>> ended = plat.sweep("small.yaml", home="my-home")
    >>> ended.counts()
    {'done': 2}
    """
    from plat.app.deciding import run_looks
    from plat.app.messages import Telling, tell
    from plat.app.sweeping import Sweep, check_sweep, chosen_place, run_missing
    from plat.dispatch.progress import choose

    texts = [*_listed(files), *_listed(overrides)]
    target = chosen_place(texts, on, wait)
    experiments, place = _experiments(files, overrides, home), Home.find(home)
    asked = Sweep(place, place.store_uri(store), target, jobs, steal)
    runs = check_sweep(asked, experiments, _listed(overrides))

    def run(some: list[Run]) -> SweepReport:
        return _uninterrupted(run_missing(asked, some, experiments, progress=choose(Telling())))

    if any(experiment.decide for experiment in experiments):
        return run_looks(asked, experiments, run, say=tell)
    return run(runs)


@_in_our_words
def status(files: Paths = (), overrides: Texts = (), *, home: str | None = None) -> list[Entry]:
    """Return an entry with the state of each run of the files, or of all runs in the home if no file is given.

    >>> [str(entry.state.state) for entry in plat.status("small.yaml", home="my-home")]
    ['done', 'done']
    """
    from plat.app.entries import entries_asked
    from plat.app.home_runs import home_to_read

    return entries_asked(home_to_read(home), _experiments(files, overrides, home, searches=True))


@_in_our_words
def runs(
    files: Paths = (), overrides: Texts = (), *, where: Texts = (), columns: Texts = (), home: str | None = None
) -> pd.DataFrame:
    """Return a table of runs with their id, as `plat runs` shows it, unrounded.

    where    conditions such as `task=digits` or `best>=0.5`
    columns  fields, axes, config keys or metrics (`max:val/return`); empty: the default columns

    >>> list(plat.runs("small.yaml", columns=["seed", "state"], home="my-home").columns)
    ['id', 'seed', 'state']
    """
    import pandas as pd

    from plat.app.chosen_runs import table_of_runs
    from plat.app.home_runs import home_to_read

    place = home_to_read(home)
    experiments = _experiments(files, overrides, home, searches=True)
    shown, chosen, _ = table_of_runs(place, experiments, _listed(where), ",".join(_listed(columns)) or None)
    rows = [{"id": facts.entry.id, **{key: facts.value(key) for key in shown}} for facts in chosen]
    return pd.DataFrame(rows, columns=["id", *[key for key in shown if key != "id"]])


@_in_our_words
def report(
    file: str | Path,
    overrides: Texts = (),
    *,
    out: str | Path | None = None,
    record: bool = True,
    home: str | None = None,
    store: str | None = None,
) -> MadeReport:
    """Build the report of one file from the store, and write its files.

    out     the output folder; None: `reports/` in the home
    record  also record the findings in MLflow, after updating it with the runs of the file

    `built.artifacts` of the result has tables and figures, `built.claims` the verdicts, `files` the paths. `whole` is
    False if a part failed (it is in `built.failures`), or if results were damaged or had to be left out.

    >>> [table.name for table in plat.report("small.yaml", home="my-home").built.artifacts]
    ['measures']
    """
    from plat.app.importing import catch_up
    from plat.app.report_making import make_report

    experiment = _one_experiment(file, overrides, home)
    place = Home.find(home).checked()
    uri = place.store_uri(store)
    whole = not record or catch_up(place, uri, [experiment]) == 0
    made = make_report(place, uri, experiment, Path(out) if out is not None else None, record=record, explorer=True)
    return replace(made, whole=made.whole and whole)


@_in_our_words
def claims(files: Paths, overrides: Texts = (), *, home: str | None = None, store: str | None = None) -> pd.DataFrame:
    """Return the verdict on each claim of the files, in the columns file, id, says, verdict and why.

    >>> list(plat.claims("small.yaml", home="my-home")["verdict"])
    ['not_enough_data']
    """
    import pandas as pd

    from plat.app.importing import catch_up
    from plat.app.report_making import judged
    from plat_analysis.report.verdicts import verdict_lines

    experiments, place = _experiments(files, overrides, home), Home.find(home).checked()
    uri = place.store_uri(store)
    catch_up(place, uri, experiments)
    lines = verdict_lines([judged(place, uri, experiment)[0] for experiment in experiments])
    rows = [
        (line.experiment.name, line.verdict.id, line.sentence, line.verdict.status, line.verdict.reason)
        for line in lines
    ]
    return pd.DataFrame(rows, columns=["file", "id", "says", "verdict", "why"])


@_in_our_words
def tune(
    file: str | Path,
    overrides: Texts = (),
    *,
    on: str = "local",
    jobs: int | None = None,
    steal: bool = False,
    home: str | None = None,
    store: str | None = None,
) -> list[Summary]:
    """Run what is left of the searches of a file, wait, and return a summary of each.

    See `sweep` for the options and for Ctrl-C, after which no further search begins.

    `trials` of a summary has every trial with its values, `winners` the best with its values on `seeds` and `confirm`.

    >>> [summary.counts() for summary in plat.tune("search.yaml", home="my-home")]
    [{'complete': 2}]
    """
    from plat.app.messages import Telling
    from plat.app.searching import check_searches, search_rest
    from plat.app.sweeping import Sweep, chosen_place
    from plat.dispatch.progress import choose

    texts, place = [str(file), *_listed(overrides)], Home.find(home)
    asked = Sweep(place, place.store_uri(store), chosen_place(texts, on, wait=True), jobs, steal)
    summaries = []
    for search in check_searches(asked, texts):
        report, summary, _ = search_rest(asked, search, choose(Telling()))
        _uninterrupted(report)
        summaries.append(summary)
    return summaries


@_in_our_words
def load(file: str | Path, overrides: Texts = (), *, home: str | None = None, store: str | None = None) -> Frames:
    """Return the data in the store for the runs of a file, as pandas frames `runs`, `metrics` and `tables`.

    >>> frames = plat.load("small.yaml", home="my-home")
    >>> sorted(frames.metrics.columns)
    ['key', 'run_id', 'step', 'value']
    """
    from plat.app.importing import catch_up, load_results

    experiment = _one_experiment(file, overrides, home)
    place = Home.find(home).checked()
    uri = place.store_uri(store)
    catch_up(place, uri, [experiment])
    return load_results(place, uri, experiment)


def _listed(files: Paths) -> list[str]:
    return [str(files)] if isinstance(files, str | Path) else [str(file) for file in files]


def _uninterrupted(report: SweepReport) -> SweepReport:
    """Log what went wrong beside the runs, and return the report; KeyboardInterrupt if a signal ended the sweep."""
    from plat.app.messages import tell

    for text in report.trouble:
        tell(f"warning: {text}")
    if report.interrupted:
        raise KeyboardInterrupt
    return report


def _one_experiment(file: str | Path, overrides: Texts, home: str | None) -> Experiment:
    experiments = _experiments([file], overrides, home)
    if len(experiments) > 1:
        files = ", ".join(str(experiment.path) for experiment in experiments)
        raise SpecError("this function takes one experiment file", where=files, fix="call it for each file")
    return experiments[0]


def _experiments(files: Paths, overrides: Texts, home: str | None, *, searches: bool = False) -> list[Experiment]:
    from plat.app.loading import load_experiments

    texts = [*_listed(files), *_listed(overrides)]
    return load_experiments(texts, required=not searches, home=home, with_searches=searches)
