"""Reasons why runs are not done, and their past and expected cost: the lines above the table of `plat status`."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from plat.characters import without_numbers
from plat.plain_files import open_regular, parse_json
from plat.runner.failures import FINAL, FIX
from plat.store.home import Home
from plat.store.run_directory.run_files import gpus_of, load_meta, read_outcome
from plat.store.run_directory.state import RunState
from plat.units import duration
from plat.words.outcomes import ENDED_ON_REQUEST, PRUNED
from plat.words.states import RunStatus

if TYPE_CHECKING:
    from plat.spec.expansion.experiment import Run
    from plat.trainer.resources import Resources

MOST_REASONS = 6  # lines of reasons; runs with further reasons are only counted
LONGEST = 160  # characters of the problem, and of the fix
_MEANING: dict[str, str] = {
    RunStatus.DONE: "it has a result, and is not done again",
    RunStatus.RUNNING: "a live process holds its lease",
    RunStatus.QUEUED: "it is queued in a scheduler, which will start it",
    RunStatus.UNKNOWN: (
        "a lease is held from elsewhere and cannot be checked from here; {command} with --steal takes it over"
    ),
    RunStatus.FAILED: "its last attempt failed; `plat retry` tries again",
    RunStatus.INTERRUPTED: "its last attempt ended early; {command} resumes from its newest checkpoint, if any",
    RunStatus.PREPARING: "what it shares with other runs is being made; it starts after that",
    RunStatus.MISSING: "it was never started",
}
COMMANDS = {"sweep": "the next `plat sweep`", "tune": "the next `plat tune FILE`", "run": "the same `plat run`"}
_WHICH_COMMAND = " (`plat why RUN` has the command)"


def meaning(state: str, asked_by: str = "sweep") -> str:
    """Explain a state and name the command that continues such a run; `asked_by` is a key of COMMANDS."""
    return _MEANING.get(state, state).format(command=COMMANDS[asked_by])


def why_missing(state: RunState, asked_by: str = "sweep") -> str:
    """Explain why a run has no result, and how to get one.

    For a done or running run, return its recorded activity before the first step, or "". `asked_by` is the verb that
    continues the run: "sweep", "tune" or "run".
    """
    if state.state in (RunStatus.DONE, RunStatus.RUNNING):
        return _shortened(state.starting)
    command = COMMANDS[asked_by] + " {does}" + (_WHICH_COMMAND if asked_by == "run" else "")
    if state.state == RunStatus.MISSING:
        return f"never started; {'`plat sweep` starts it' if asked_by == 'sweep' else command.format(does='starts it')}"
    if state.state == RunStatus.FAILED:
        is_left = state.outcome in FINAL or asked_by == "tune"  # a search does not retry a failed trial
        again = "`plat retry` tries again" if is_left else command.format(does="tries again")
        return f"{state.outcome}: {_shortened(state.reason)}; {again}"
    if state.state == RunStatus.INTERRUPTED and state.outcome == PRUNED:
        return f"{PRUNED}: a search pruned the run; the next sweep or search that includes the run resumes it"
    if state.state == RunStatus.INTERRUPTED:
        reason = state.outcome if state.outcome in ENDED_ON_REQUEST else _shortened(state.reason) or "interrupted"
        does = "resumes from its newest checkpoint" if state.resumes else "starts it anew: it has no checkpoint"
        return f"{reason}; {command.format(does=does)}"
    if state.state == RunStatus.QUEUED and state.reason:
        return _shortened(state.reason)
    return meaning(state.state, asked_by)


def reasons(states: Mapping[str, RunState], asked_by: Mapping[str, str] | None = None) -> list[str]:
    """Count runs by state and `why_missing`: a line for each, the most common first; done runs have none.

    Reasons that differ in numbers only are one line, with the first of them. Beyond MOST_REASONS lines, the last line
    counts the rest.

    asked_by  run id -> key of COMMANDS; default "sweep"
    """
    verbs = asked_by or {}
    why = {run_id: why_missing(state, verbs.get(run_id, "sweep")) for run_id, state in states.items()}
    first: dict[str, str] = {}
    texts = [f"{states[run_id].state}: {reason}" for run_id, reason in why.items() if reason]
    for text in texts:
        first.setdefault(without_numbers(text), text)
    ordered = Counter(map(without_numbers, texts)).most_common()
    lines = [f"{number} {first[kind]}" for kind, number in ordered[:MOST_REASONS]]
    more = sum(number for _, number in ordered[MOST_REASONS:])
    return [*lines, *([f"{more} for other reasons (`plat why RUN`)"] if more else [])]


@dataclass(frozen=True)
class Work:
    """Run time in seconds, and the same multiplied by the GPUs of each run."""

    seconds: float
    gpu_seconds: float = 0.0

    def __str__(self) -> str:
        gpus = f" ({self.gpu_seconds / 3600:.1f} GPU-hours)" if self.gpu_seconds else ""
        return duration(self.seconds) + gpus


def work_done(home: Home, states: Mapping[str, RunState]) -> Work:
    """Return the work of all ended attempts of these runs; of a done run, what this home's history has of it."""
    spent: dict[str, tuple[float, int]] = {}  # seconds, GPUs
    with contextlib.suppress(OSError), open_regular(home.history) as lines:
        for text in lines:
            with contextlib.suppress(ValueError, TypeError, KeyError, AttributeError):
                line = parse_json(text)
                if line.get("run") in states:
                    spent[line["run"]] = float(line.get("spent") or line["wall"]), int(line.get("gpus") or 0)
    for run_id, state in states.items():
        if state.attempt and state.state != RunStatus.DONE:
            paths = home.run(run_id)
            outcomes = (read_outcome(attempt) or {} for attempt in paths.attempts())
            seconds = sum(float(outcome.get("wall") or 0.0) for outcome in outcomes)
            spent[run_id] = seconds, gpus_of(load_meta(paths) or {})
    return _total(spent.values())


def work_to_go(home: Home, runs: Sequence[Run], states: Mapping[str, RunState]) -> Work | None:
    """Estimate the work left of these runs from similar runs in this home; None unless all can be estimated."""
    from plat.planning.cost import History, rate_so_far
    from plat.trainer.resources import Resources

    left = [run for run in runs if states[run.id].state != RunStatus.DONE]
    history = History.read(home.history)
    rates = {run.id: rate_so_far(home.run(run.id), states[run.id]) for run in left}
    costs = {run.id: history.seconds(run, states[run.id].step or 0, rates[run.id]) for run in left}
    known = [(cost, _gpus(Resources.of(run.resources))) for run in left if (cost := costs[run.id]) is not None]
    return _total(known) if len(known) == len(left) else None


def _gpus(needed: Resources) -> float:
    return needed.gpus * max(1, needed.nodes)


def _total(parts: Iterable[tuple[float, float]]) -> Work:
    listed = list(parts)
    return Work(sum(seconds for seconds, _ in listed), sum(seconds * gpus for seconds, gpus in listed))


def cost_line(spent: Work, to_go: Work | None, is_over: bool) -> str:
    """Return the work done, and unless `is_over` the work to go: `2.5 h of work done, about 40.0 min to go`.

    GPU-hours follow where GPUs were used: `2.5 h (5.0 GPU-hours)`. If `to_go` is None, it is not known yet.
    """
    done = f"{spent} of work done"
    left = f", about {to_go} to go" if to_go is not None else ", time to go not known yet"
    return done if is_over else done + left


def _shortened(reason: str) -> str:
    """Return a reason in one line; the problem and the fix are each cut to LONGEST characters."""
    parts = [" ".join(part.split()) for part in reason.partition(FIX)[::2]]
    return FIX.join(part if len(part) <= LONGEST else part[: LONGEST - 3] + "..." for part in parts if part)
