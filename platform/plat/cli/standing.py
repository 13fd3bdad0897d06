"""Why runs are not done, and what they have cost and will cost: what `plat status` says above its table."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from plat.outcomes import ENDED_ON_REQUEST
from plat.runner.failures import FINAL
from plat.store.home import Home
from plat.store.run_directory.files import read_outcome
from plat.store.run_directory.state import RunState
from plat.units import duration

if TYPE_CHECKING:
    from plat.spec.experiment import Run

MOST_REASONS = 6  # lines of reasons; the rest is counted
LONGEST = 160  # characters of one reason
MEANING = {
    "done": "it has a result; `plat sweep` will not do it again",
    "running": "a live process holds its lease",
    "queued": "a scheduler has it; it starts there by itself",
    "unknown": "a lease is held from elsewhere and cannot be checked from here; `plat sweep --steal` takes it over",
    "failed": "its last attempt failed; `plat retry` tries again",
    "interrupted": "its last attempt ended early; the next `plat sweep` goes on from its newest checkpoint",
    "preparing": "what it needs is being made (its base model); it starts after that",
    "missing": "it was never started",
}


def why_missing(state: RunState) -> str:
    """Why a run has no result, and what changes that; "" for one that is done or runs."""
    if state.state in ("done", "running"):
        return ""
    if state.state == "missing":
        return "never started; `plat sweep` starts it"
    if state.state == "failed":
        again = "`plat retry` tries again" if state.outcome in FINAL else "the next `plat sweep` tries again"
        return f"{state.outcome}: {_shortened(state.reason)}; {again}"
    if state.state == "interrupted":
        reason = state.outcome if state.outcome in ENDED_ON_REQUEST else _shortened(state.reason) or "interrupted"
        return f"{reason}; the next `plat sweep` goes on from its newest checkpoint"
    if state.state == "queued" and state.reason:
        return _shortened(state.reason)
    return MEANING.get(state.state, state.state)


def reasons(states: Iterable[RunState]) -> list[str]:
    """Why runs are missing, a line for each reason with the number of its runs, the commonest first."""
    numbers: dict[tuple[str, str], int] = {}
    for state in states:
        if reason := why_missing(state):
            numbers[state.state, reason] = numbers.get((state.state, reason), 0) + 1
    ordered = sorted(numbers.items(), key=lambda item: -item[1])
    lines = [f"{number} {state}: {reason}" for (state, reason), number in ordered[:MOST_REASONS]]
    more = sum(number for _, number in ordered[MOST_REASONS:])
    return [*lines, *([f"{more} for other reasons (`plat why RUN`)"] if more else [])]


def seconds_spent(home: Home, states: Mapping[str, RunState]) -> float:
    """The time that all attempts of these runs took so far, by run id. Of one that runs, attempts that have ended."""
    spent = dict.fromkeys(states, 0.0)
    with contextlib.suppress(OSError), open(home.history, "rb") as lines:
        for text in lines:
            with contextlib.suppress(ValueError, TypeError, KeyError, AttributeError):
                line = json.loads(text)
                if line.get("run") in spent:
                    spent[line["run"]] = float(line.get("spent") or line["wall"])
    for run_id, state in states.items():
        if state.attempt and state.state != "done":
            outcomes = (read_outcome(attempt) or {} for attempt in home.run(run_id).attempts())
            spent[run_id] = sum(float(outcome.get("wall") or 0.0) for outcome in outcomes)
    return sum(spent.values())


def seconds_to_go(home: Home, runs: Sequence[Run], states: Mapping[str, RunState]) -> float | None:
    """The work that is left of these runs, as similar runs took here; None while that is not known of all of them."""
    from plat.plan.cost import History, rate_so_far

    left = [run for run in runs if states[run.id].state != "done"]
    history = History.read(home.history)
    rates = {run.id: rate_so_far(home.run(run.id), states[run.id]) for run in left}
    costs = [history.seconds(run, states[run.id].step or 0, rates[run.id]) for run in left]
    known = [cost for cost in costs if cost is not None]
    return sum(known) if len(known) == len(costs) else None


def cost_line(spent: float, to_go: float | None, is_over: bool) -> str:
    """`2.5 h of work done, about 40.0 min to go`."""
    done = f"{duration(spent)} of work done"
    if is_over:
        return done
    return f"{done}, about {duration(to_go)} to go" if to_go is not None else f"{done}, what is left is not known yet"


def _shortened(reason: str) -> str:
    text = " ".join(reason.split())
    return text if len(text) <= LONGEST else text[: LONGEST - 3] + "..."
