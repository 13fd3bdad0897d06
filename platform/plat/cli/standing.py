"""Why runs are not done, and what they have cost and will cost: what `plat status` says above its table."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from plat.outcomes import ENDED_ON_REQUEST, PRUNED
from plat.plain_files import open_regular, parse_json
from plat.runner.failures import FINAL, FIX
from plat.store.home import Home
from plat.store.run_directory.files import gpus_of, load_meta, read_outcome
from plat.store.run_directory.state import IN_ARCHIVE, RunState
from plat.units import duration

if TYPE_CHECKING:
    from plat.spec.experiment import Run

MOST_REASONS = 6  # lines of reasons; the rest is counted
LONGEST = 160  # characters of what happened, and of how to mend it
_MEANING = {
    "done": "it has a result, and is not done again",
    "running": "a live process holds its lease",
    "queued": "a scheduler has it; it starts there by itself",
    "unknown": "a lease is held from elsewhere and cannot be checked from here; {command} with --steal takes it over",
    "failed": "its last attempt failed; `plat retry` tries again",
    "interrupted": "its last attempt ended early; {command} goes on from its newest checkpoint",
    "preparing": "what it needs is being made (its base model); it starts after that",
    "missing": "it was never started",
}
COMMANDS = {"sweep": "the next `plat sweep`", "tune": "the next `plat tune FILE`", "run": "the same `plat run`"}
NO_ONE: Mapping[str, str] = {}
_WHICH_COMMAND = " (`plat why RUN` has the command)"


def meaning(state: str, asked_by: str = "sweep") -> str:
    """What a state means, and which command goes on; `asked_by` is one of COMMANDS."""
    return _MEANING.get(state, state).format(command=COMMANDS[asked_by])


def why_missing(state: RunState, asked_by: str = "sweep") -> str:
    """Why a run has no result, and what changes that; "" for one that is done or trains. `asked_by`: see `meaning`."""
    if state.state in ("done", "running"):
        return _shortened(state.starting)
    command = COMMANDS[asked_by] + " {does}" + (_WHICH_COMMAND if asked_by == "run" else "")
    if state.state == "missing" and state.reason == IN_ARCHIVE:
        return "in the archive; `plat archive --restore` brings it back, `plat sweep` does it anew"
    if state.state == "missing":
        return "never started; " + (
            "`plat sweep` starts it" if asked_by == "sweep" else command.format(does="starts it")
        )
    if state.state == "failed":
        is_left = state.outcome in FINAL or asked_by == "tune"  # the trial has failed, and is not taken up again
        again = "`plat retry` tries again" if is_left else command.format(does="tries again")
        return f"{state.outcome}: {_shortened(state.reason)}; {again}"
    if state.state == "interrupted" and state.outcome == PRUNED:
        return f"{PRUNED}: its search gave it up; whatever asks for it next goes on from its newest checkpoint"
    if state.state == "interrupted":
        reason = state.outcome if state.outcome in ENDED_ON_REQUEST else _shortened(state.reason) or "interrupted"
        return f"{reason}; {command.format(does='goes on from its newest checkpoint')}"
    if state.state == "queued" and state.reason:
        return _shortened(state.reason)
    return meaning(state.state, asked_by)


def reasons(states: Mapping[str, RunState], asked_by: Mapping[str, str] = NO_ONE) -> list[str]:
    """Why runs are missing, a line for each reason with the number of its runs, the commonest first.

    asked_by  which of COMMANDS goes on with a run, by its id; "sweep" with those that are not in it
    """
    numbers: dict[tuple[str, str], int] = {}
    for run_id, state in states.items():
        if reason := why_missing(state, asked_by.get(run_id, "sweep")):
            numbers[state.state, reason] = numbers.get((state.state, reason), 0) + 1
    ordered = sorted(numbers.items(), key=lambda item: -item[1])
    lines = [f"{number} {state}: {reason}" for (state, reason), number in ordered[:MOST_REASONS]]
    more = sum(number for _, number in ordered[MOST_REASONS:])
    return [*lines, *([f"{more} for other reasons (`plat why RUN`)"] if more else [])]


@dataclass(frozen=True)
class Work:
    """Seconds of runs, and the same counted once for each GPU that a run has."""

    seconds: float
    gpu_seconds: float = 0.0

    def __str__(self) -> str:
        gpus = f" ({self.gpu_seconds / 3600:.1f} GPU-hours)" if self.gpu_seconds else ""
        return duration(self.seconds) + gpus


def work_done(home: Home, states: Mapping[str, RunState]) -> Work:
    """What all attempts of these runs took so far, by run id. Of one that runs, attempts that have ended."""
    spent: dict[str, tuple[float, int]] = {}  # seconds, GPUs
    with contextlib.suppress(OSError), open_regular(home.history) as lines:
        for text in lines:
            with contextlib.suppress(ValueError, TypeError, KeyError, AttributeError):
                line = parse_json(text)
                if line.get("run") in states:
                    spent[line["run"]] = float(line.get("spent") or line["wall"]), int(line.get("gpus") or 0)
    for run_id, state in states.items():
        if state.attempt and state.state != "done":
            paths = home.run(run_id)
            outcomes = (read_outcome(attempt) or {} for attempt in paths.attempts())
            seconds = sum(float(outcome.get("wall") or 0.0) for outcome in outcomes)
            spent[run_id] = seconds, gpus_of(load_meta(paths) or {})
    return _total(spent.values())


def work_to_go(home: Home, runs: Sequence[Run], states: Mapping[str, RunState]) -> Work | None:
    """The work that is left of these runs, as similar runs took here; None while that is not known of all of them."""
    from plat.plan.cost import History, rate_so_far
    from plat.trainer.resources import Resources

    left = [run for run in runs if states[run.id].state != "done"]
    history = History.read(home.history)
    rates = {run.id: rate_so_far(home.run(run.id), states[run.id]) for run in left}
    costs = {run.id: history.seconds(run, states[run.id].step or 0, rates[run.id]) for run in left}
    known = [(cost, Resources.of(run.resources).gpus) for run in left if (cost := costs[run.id]) is not None]
    return _total(known) if len(known) == len(left) else None


def _total(parts: Iterable[tuple[float, int]]) -> Work:
    listed = list(parts)
    return Work(sum(seconds for seconds, _ in listed), sum(seconds * gpus for seconds, gpus in listed))


def cost_line(spent: Work, to_go: Work | None, is_over: bool) -> str:
    """`2.5 h of work done, about 40.0 min to go`; with GPUs `2.5 h (5.0 GPU-hours) of work done`."""
    done = f"{spent} of work done"
    if is_over:
        return done
    return f"{done}, about {to_go} to go" if to_go is not None else f"{done}, what is left is not known yet"


def _shortened(reason: str) -> str:
    """A reason in one line, what happened and how to mend it each cut where it is long."""
    parts = [" ".join(part.split()) for part in reason.partition(FIX)[::2]]
    return FIX.join(part if len(part) <= LONGEST else part[: LONGEST - 3] + "..." for part in parts if part)
