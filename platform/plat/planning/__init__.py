"""Plan experiments: which runs are done, running or missing, and what the rest will cost. Writes nothing.

    plan = make_plan(experiments, home, jobs=2)
    plan.rows                 one per distinct run, in the order of the files
    plan.render()             the matrix as text
    plan.to_json()            the same for machines

Costs come from similar runs of this home (`plat.planning.cost`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from plat.planning.check import needs_of
from plat.planning.cost import History, bytes_per_run, disk_bytes, rate_so_far
from plat.planning.plan import Plan, PlanRow
from plat.processes.own_process import usable_cores
from plat.spec.composition.trainer_calls import checked_call
from plat.spec.expansion.experiment import Experiment, Run
from plat.store.home import Home
from plat.store.many_runs import states
from plat.store.run_directory.state import RunState
from plat.trainer.api import PlanNote, Trainer
from plat.trainer.finding import find_trainer
from plat.trainer.resources import Resources
from plat.words.states import RunStatus
from plat.words.usage import total

Standing = Callable[[Home, Iterable[str]], dict[str, RunState]]
SAMPLED = 5  # finished runs whose size is measured


def make_plan(
    experiments: Sequence[Experiment], home: Home, *, jobs: int | None = None, standing: Standing = states
) -> Plan:
    """Return the state of every distinct run of these experiments, and the cost of the runs that are not done.

    jobs      workers at once; by default as many as the cores allow, and no more than there are runs left
    standing  gives the states of runs of a home, by id; by default from their files alone

    The wall time is total work / workers, and at least the longest run plus the longest preparation.
    """
    runs: dict[str, Run] = {}
    names: dict[str, list[str]] = {}  # run id -> the experiments that ask for it
    for experiment in experiments:
        for run in experiment.runs:
            runs.setdefault(run.id, run)
            names.setdefault(run.id, []).append(experiment.name)
    state_of = standing(home, runs)
    history = History.read(home.history)
    rates = _rates_so_far(home, runs.values(), state_of)
    for run_id, rate in rates.items():
        history.note(runs[run_id], rate)
    rows = []
    for run_id, run in runs.items():
        state = state_of[run_id]
        is_done = state.state == RunStatus.DONE
        spread = None if is_done else history.spread(run, state.step or 0, rates.get(run_id))
        seconds = 0.0 if is_done else None if spread is None else spread[0]
        rows.append(PlanRow(run, state, tuple(names[run_id]), seconds, spread))
    left = [row for row in rows if row.state.state != RunStatus.DONE]
    done = [row.id for row in rows if row.state.state == RunStatus.DONE]
    preparing = history.unprepared((row.run for row in left), home.cache)
    threads = max((Resources.of(row.run.resources).threads for row in left), default=1)
    workers = jobs or max(1, min(usable_cores() // max(1, threads), len(left) or 1))
    costs = [row.seconds for row in left if row.seconds is not None]
    is_known = len(costs) == len(left)
    work = sum(costs) + sum(seconds for _, seconds in preparing)
    longest = max(costs, default=0.0) + max((seconds for _, seconds in preparing), default=0.0)
    return Plan(
        experiments=list(experiments),
        rows=rows,
        preparations=[title for title, _ in preparing],
        workers=workers,
        work_seconds=work if is_known else None,
        wall_seconds=max(work / workers, longest) if is_known else None,
        disk_bytes=disk_bytes([row.run for row in left], bytes_per_run(home, done[:SAMPLED])),
        measured=len(costs),
        usage=total(history.usage(row.run, row.seconds or 0.0) for row in left) if is_known else None,
        notes=_notes(home, [row.run for row in left]),
        needs=needs_of(row.run for row in left),
    )


def _notes(home: Home, runs: Sequence[Run]) -> list[PlanNote]:
    """Return what the trainers add to the plan of these runs. Trainers that share the method get one call."""
    runs_of: dict[Callable[..., PlanNote | None], tuple[Trainer, list[Run]]] = {}
    for run in runs:
        spec = find_trainer(run.trainer)
        runs_of.setdefault(type(spec).plan_note, (spec, []))[1].append(run)
    notes = [checked_call(spec, "plan_note")(home, some) for spec, some in runs_of.values()]
    return [note for note in notes if note is not None]


def _rates_so_far(home: Home, runs: Iterable[Run], state_of: Mapping[str, RunState]) -> dict[str, float]:
    """Return the seconds per iteration of the runs that have begun and are not done, by id."""
    begun = [run.id for run in runs if state_of[run.id].state in (RunStatus.RUNNING, RunStatus.INTERRUPTED)]
    rates = {run_id: rate_so_far(home.run(run_id), state_of[run_id]) for run_id in begun}
    return {run_id: rate for run_id, rate in rates.items() if rate is not None}
