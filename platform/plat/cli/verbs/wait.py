"""`plat wait`: return when runs have come so far, for scripts and agents that submitted a sweep and left."""

from __future__ import annotations

import time
from collections import Counter
from typing import TYPE_CHECKING, Annotated

import typer

from plat.app.entries import entries_asked
from plat.app.home_runs import home_to_read
from plat.app.loading import any_search, brought_up_to_date, load_experiments
from plat.cli.common import RUNS_FAILED, Arguments, HomeOption, StoreOption, verb
from plat.cli.result import Result
from plat.cli.schemas.runs import WaitData
from plat.errors import SpecError
from plat.store.coordination.live_sweeps import some_sweep_has
from plat.store.home import Home
from plat.suggest import suggest
from plat.units import duration, seconds_of
from plat.words.states import RunStatus

if TYPE_CHECKING:
    from plat.spec.expansion.experiment import Experiment

UNTIL = ("done", "decided", "failed")
NOT_REACHED = 12
PATIENCE = 30.0  # seconds without a sign of life, as between two looks or before a sweep has begun
GOING_ON = (RunStatus.RUNNING, RunStatus.PREPARING, RunStatus.QUEUED, RunStatus.UNKNOWN)


@verb(WaitData, reads_trainers=True)
def wait(
    arguments: Arguments = None,
    until: Annotated[
        str,
        typer.Option(
            "--until", metavar="WHAT", help="done (no run is left), decided (no claim asks for more), failed."
        ),
    ] = "done",
    timeout: Annotated[
        str | None, typer.Option("--timeout", metavar="TIME", help="Give up after this time, such as 90s or 2h.")
    ] = None,
    every: Annotated[float, typer.Option("--every", min=0.1, metavar="SECONDS", help="Time between two looks.")] = 2.0,
    home: HomeOption = None,
    store: StoreOption = None,
) -> Result:
    """Wait until runs are done, decided or failed.

    Waits for the runs of the named files, or all of this home. Gives up when nothing has gone on for half a minute.
    Exit codes: 0 reached; 3 no run is active any more; 12 the time is over.
    """
    if until not in UNTIL:
        raise SpecError(
            f"nothing can be waited for until {until!r}", where="--until", fix=suggest(until, UNTIL, "ends")
        )
    limit = None if timeout is None else seconds_of(timeout, "--timeout")
    place = Home.find(home).checked() if arguments else home_to_read(home)  # a sweep may be about to make it
    experiments = load_experiments(arguments, required=False, home=home, with_searches=True)
    has_search = any_search([experiment.path for experiment in experiments])
    decided = [experiment for experiment in experiments if experiment.decide is not None]
    if until == "decided" and not decided:
        what = "--until decided needs a file that adds seeds until its claims are decided"
        raise SpecError(what, where="the command line", fix="name a file with `decide:`, or add decide=true")
    started = last_sign = time.monotonic()
    judged_at, reached = -1, False
    while True:
        entries = entries_asked(place, brought_up_to_date(place, experiments) if has_search else experiments)
        states = Counter(entry.state.state for entry in entries)
        if until == "failed":
            reached = bool(states[RunStatus.FAILED])
        elif until == "done":
            reached = bool(entries) and states[RunStatus.DONE] == len(entries)
        elif states[RunStatus.DONE] != judged_at:  # judging reads all results
            judged_at = states[RunStatus.DONE]
            reached = all(is_decided(place, place.store_uri(store), experiment) for experiment in decided)
        now = time.monotonic()
        if any(states[state] for state in GOING_ON) or some_sweep_has(place, (entry.id for entry in entries)):
            last_sign = now
        is_over = until == "failed" and bool(entries) and states[RunStatus.DONE] == len(entries)
        has_failed = states[RunStatus.FAILED] > 0 and now - last_sign >= every
        is_over = is_over or has_failed or now - last_sign >= PATIENCE
        if reached or is_over or (limit is not None and now - started >= limit):
            break
        time.sleep(every if limit is None else max(0.0, min(every, limit - (now - started))))
    numbers = {str(state): count for state, count in states.items()}
    words = ", ".join(f"{count} {state}" for state, count in numbers.items()) or "no runs"
    code = 0 if reached else RUNS_FAILED if is_over else NOT_REACHED
    ends = {0: until, RUNS_FAILED: f"not {until}, and nothing goes on"}
    text = f"{ends.get(code, f'not {until} after {duration(now - started)}')}: {words}"
    data = {"reached": reached, "until": until, "counts": numbers, "seconds": round(now - started, 1)}
    return Result(data, text, code)


def is_decided(home: Home, uri: str, experiment: Experiment) -> bool:
    """Return True if no claim of a file with `decide` asks for more runs."""
    from plat.app.deciding import standing

    return not standing(home, uri, experiment).next_runs
