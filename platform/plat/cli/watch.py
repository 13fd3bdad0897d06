"""`plat watch`: how runs are doing, live, until nothing goes on any more; plain lines when piped."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Annotated

import typer

from plat.cli.common import Arguments, HomeOption, home_to_read, load_experiments, on_terminal
from plat.cli.entries import Entry, counts, entries_asked
from plat.cli.follow import GOING_ON, Follower, describe, is_going_on, ordered
from plat.cli.searches import any_search, brought_up_to_date
from plat.cli.settings import verb
from plat.store.home import Home


@verb(reads_trainers=True)
def watch(
    arguments: Arguments = None,
    every: Annotated[
        float, typer.Option("--every", min=0.1, metavar="SECONDS", help="How often it is brought up to date.")
    ] = 2.0,
    home: HomeOption = None,
) -> int:
    """How runs are doing, live.

    Those of the named files, or all of this home; those that are done only when all are. On a terminal a table with
    keys: arrows choose a run, l shows its log, c cancels it, r tries it again, q leaves. Piped, a line for each change,
    until nothing goes on any more.
    """
    place = home_to_read(home)
    experiments = load_experiments(
        arguments, required=False, home=home, of_a_run="plat logs {id} --follow{home}", with_searches=True
    )
    has_search = any_search([experiment.path for experiment in experiments])

    def standing() -> list[Entry]:
        return entries_asked(place, brought_up_to_date(place, experiments) if has_search else experiments)

    if on_terminal():
        from plat.cli.watch_screen import Screen

        return Screen(place, standing, every).show()
    return _lines(place, standing, every)


def _lines(home: Home, standing: Callable[[], list[Entry]], every: float) -> int:
    """A line for every run whose state or step has changed, and a summary whenever the counts have."""
    follower, shown, summary = Follower(home), dict[str, str](), ""
    while True:
        entries = standing()
        for progress in ordered(follower.progress(entries)):
            line = describe(progress)
            if progress.entry.state.state in GOING_ON and shown.get(progress.entry.id) != line:
                shown[progress.entry.id] = line
                print(line, flush=True)
        if (now := counts(entry.state for entry in entries)) != summary:
            summary = now
            print(summary, flush=True)
        if not is_going_on(entries):
            return 3 if any(entry.state.state == "failed" for entry in entries) else 0
        time.sleep(every)
