"""Read a search file and do the remaining runs of its searches."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from plat.app.checking import warn_of_idle
from plat.app.entries import distinct
from plat.app.loading import split
from plat.app.messages import tell
from plat.app.sweeping import Sweep, make_home, run_missing
from plat.errors import SpecError
from plat.processes.own_process import usable_cores
from plat.trainer.resources import Resources
from plat.words.outcomes import PRUNED

if TYPE_CHECKING:
    from plat.dispatch.dispatcher import Dispatcher
    from plat.dispatch.progress import Progress
    from plat.dispatch.setting import SearchCall, Setting
    from plat.dispatch.sweep_ends import SweepReport
    from plat.search.following import Summary
    from plat.search.search import Search
    from plat.spec.expansion.experiment import Experiment

ON_A_CLUSTER = 10  # runs at once without --jobs


def load_searches(arguments: Sequence[str] | None) -> list[Search]:
    """Return the searches of the one named file, under the overrides; warn about settings without effect.

    Raises SpecError if a package is missing, if the files are not one valid one, or if a trainer refuses a corner run.
    """
    from plat.extras import require_extra
    from plat.planning.check import check_runs
    from plat.search.search_file import read_searches

    require_extra("search", "plat tune", "the command line")
    files, overrides = split(arguments)
    if len(files) != 1:
        what = "`plat tune` takes one search file" + (f", and {len(files)} are named" if files else "")
        raise SpecError(what, where="the command line", fix="for example: plat tune sweeps/keep_rate.yaml")
    searches = read_searches(files[0], overrides)
    check_runs(searches[0].corner_runs())
    _warn_of_idle(searches[0])
    return searches


def _warn_of_idle(search: Search) -> None:
    """Warn on stderr about settings of a search that have no effect at any corner of its space.

    Checked are parameters, the overrides of the command line and, without overrides, the values of `base`.
    """
    from plat.planning.check import idle_overrides

    runs = search.corner_runs()
    varied = {
        name: {assignment.key for value in parameter.corners() for assignment in parameter.overrides(value)}
        for name, parameter in search.space.items()
    }
    keys = set().union(*varied.values())
    idle = idle_overrides(runs, sorted(keys))
    for name, changed in varied.items():
        if changed and changed <= idle.keys():
            tell(f"warning: {search.path}: the trials cannot differ in {name}: {idle[min(changed)]}")
    warn_of_idle(runs, search.overrides)
    base = {} if search.overrides else {part.key: part for part in search.base if part.key not in keys}
    for key, reason in idle_overrides(runs, base).items():
        tell(f"warning: {base[key].key_place()}: {key} has no effect: {reason}")


def check_searches(sweep: Sweep, arguments: Sequence[str] | None) -> list[Search]:
    """Return what `load_searches` returns. Also raises SpecError if this machine is to do the runs and cannot."""
    from plat.planning.check import check_machine

    searches = load_searches(arguments)
    if sweep.target.is_here:
        check_machine(searches[0].corner_runs(), sweep.home)
    return searches


def search_rest(
    sweep: Sweep, search: Search, progress: Progress | None = None
) -> tuple[SweepReport, Summary, Experiment]:
    """Do the rest of one search; return how its unpruned runs ended, its summary, and an experiment of its runs.

    Raises HomeError if another process works on the search, and what `run_missing` raises.
    """
    from plat.dispatch.registry import find_dispatcher
    from plat.search.following import summarise
    from plat.search.study import open_study
    from plat.search.trial_source import TrialSource

    make_home(sweep)
    dispatcher = find_dispatcher(sweep.target.on)
    if dispatcher.executes_searches:
        followed = _search_there(sweep, search, dispatcher.open_search, progress)
        if followed is not None:
            return followed
    home, threads = sweep.home, max(1, Resources.of(search.first_run.resources).threads)
    at_once = max(1, usable_cores() // threads) if sweep.target.is_here else ON_A_CLUSTER
    with open_study(home, search) as study:
        source = TrialSource(home, search, study, sweep.jobs or at_once, tell)
        experiment = search.experiment(source.runs)
        report = run_missing(sweep, source, [experiment], progress=progress)
        report.ends = {key: end for key, end in report.ends.items() if end.outcome != PRUNED}
        return report, summarise(home, search, study), replace(experiment, runs=distinct([experiment]))


def _search_there(
    sweep: Sweep, search: Search, open_search: Callable[[Setting, SearchCall], Dispatcher], progress: Progress | None
) -> tuple[SweepReport, Summary, Experiment] | None:
    """Let a dispatcher do the rest of a search, and follow it. Return as `search_rest`; None if nothing is left to do.

    Raises HomeError if a process that is not of that dispatcher works on the search, and what `run_missing` raises.
    """
    from plat.dispatch.schedulers import ask_schedulers
    from plat.dispatch.setting import SearchCall
    from plat.search.following import FollowedSearch, summarise
    from plat.search.study import Study, open_study
    from plat.search.trials import Trials

    call = SearchCall(search.name, str(search.path.absolute()), search.overrides, search.first_run.resources)
    home = sweep.home
    ask_schedulers(home)
    if not FollowedSearch.goes_on(home, call):
        with open_study(home, search) as study:
            if Trials(home, search, study).nothing_left:
                return None
    source = FollowedSearch(home, search, Study(home, search), call, tell)
    experiment = search.experiment(source.runs)
    report = run_missing(
        sweep, source, [experiment], progress=progress, opened=lambda setting: open_search(setting, call)
    )
    report.ends = {key: end for key, end in report.ends.items() if end.outcome != PRUNED}
    return report, summarise(home, search, Study(home, search)), replace(experiment, runs=distinct([experiment]))
