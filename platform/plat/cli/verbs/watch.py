"""`plat watch`: progress of runs, live, until no run can change any more; plain lines when piped."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import Annotated

import typer

from plat.app.entries import Entry, counts, entries_asked
from plat.app.home_runs import home_to_read
from plat.app.loading import any_search, brought_up_to_date, load_experiments
from plat.cli.common import RUNS_FAILED, Arguments, HomeOption, on_terminal, verb
from plat.cli.result import Result, print_event, settings
from plat.cli.schemas.runs import WatchData
from plat.cli.screen.watch_screen import GOING_ON, Screen, describe, views_of
from plat.dispatch.follower import Follower
from plat.store.home import Home
from plat.words.states import RunStatus


@verb(WatchData, reads_trainers=True, lines=True)
def watch(
    arguments: Arguments = None,
    every: Annotated[
        float, typer.Option("--every", min=0.1, metavar="SECONDS", help="Time between two updates.")
    ] = 2.0,
    home: HomeOption = None,
) -> Result:
    """Follow the progress of runs live.

    Shows the runs of the named files, or all of this home; done runs only when all are done. On a terminal a table with
    keys: arrows choose a run, l shows its log, c cancels it, r retries it, q quits. In a pipe a line for each change,
    until no run is active.
    """
    place = home_to_read(home)
    experiments = load_experiments(
        arguments, required=False, home=home, of_a_run="plat logs {id} --follow{home}", with_searches=True
    )
    has_search = any_search([experiment.path for experiment in experiments])

    def standing() -> list[Entry]:
        return entries_asked(place, brought_up_to_date(place, experiments) if has_search else experiments)

    code = Screen(place, standing, every).show() if on_terminal() and not settings.json else None
    if code is None:
        code = _lines(place, standing, every)
    numbers = Counter(str(entry.state.state) for entry in standing()) if settings.json else {}
    return Result({"counts": dict(numbers)}, code=code)


def _lines(home: Home, standing: Callable[[], list[Entry]], every: float) -> int:
    """Print changed runs and counts until no run can change; return RUNS_FAILED if a run has failed, else 0."""
    show = _print_json if settings.json else partial(print, flush=True)
    follower, shown, summary = Follower(home), dict[str, str](), ""
    while True:
        entries = standing()
        for view in views_of(follower, entries):
            line = describe(view)
            if view.state in GOING_ON and shown.get(view.id) != line:
                shown[view.id] = line
                show(line)
        if (now := counts(entry.state for entry in entries)) != summary:
            summary = now
            show(summary)
        if not any(entry.state.state in GOING_ON for entry in entries):
            return RUNS_FAILED if any(entry.state.state == RunStatus.FAILED for entry in entries) else 0
        time.sleep(every)


def _print_json(line: str) -> None:
    print_event("message", {"text": line})
