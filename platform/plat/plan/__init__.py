"""What is done, running and missing, and what the rest will cost. Writes nothing.

    plan = make_plan(experiments, home, jobs=2)
    plan.rows                 one per distinct run, in the order of the files
    plan.render()             the matrix as text
    plan.to_json()            the same for machines

Cost comes from what similar runs took here (`plat.plan.cost`). Before one of them has made an iteration it is not
known, and the plan says so.
Wall time is the total work divided by the number of workers, and at least the longest run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from plat.cores import usable_cores
from plat.plan.cost import History, bytes_per_run, disk_bytes, rate_so_far
from plat.plan.plan import Plan, PlanRow
from plat.plan.precheck import prechecks
from plat.spec.experiment import Experiment, Run
from plat.store.home import Home
from plat.store.index.runs import states
from plat.store.run_directory.state import RunState
from plat.trainer.resources import Resources

Standing = Callable[[Home, Iterable[str]], dict[str, RunState]]
SAMPLED = 5  # finished runs whose size is measured


def make_plan(
    experiments: Sequence[Experiment], home: Home, *, jobs: int | None = None, standing: Standing = states
) -> Plan:
    """Where every distinct run of these experiments stands, and what those that are not done will cost.

    jobs      workers at once; by default as many as the cores allow
    standing  gives the states of runs of a home, by id; by default from their files alone
    """
    runs: dict[str, Run] = {}
    names: dict[str, list[str]] = {}  # of the experiments that ask for a run
    for experiment in experiments:
        for run in experiment.runs:
            runs.setdefault(run.id, run)
            names.setdefault(run.id, []).append(experiment.name)
    state_of = standing(home, runs)
    history = History.read(home.history)
    rates = _rates_so_far(home, runs.values(), state_of)
    for run_id, rate in rates.items():
        history.note(runs[run_id], rate)
    rows = [_row(run, state_of[run.id], names[run.id], history, rates.get(run.id)) for run in runs.values()]
    left = [row for row in rows if row.state.state != "done"]
    done = [row.id for row in rows if row.state.state == "done"]
    preparing = history.unprepared((row.run for row in left), home.cache)
    workers = jobs or _workers(left)
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
        prechecks=prechecks(home, (row.run for row in left)),
    )


def _rates_so_far(home: Home, runs: Iterable[Run], state_of: Mapping[str, RunState]) -> dict[str, float]:
    """Seconds per iteration of the runs that have begun and are not done, by id."""
    begun = [run.id for run in runs if state_of[run.id].state in ("running", "interrupted")]
    rates = {run_id: rate_so_far(home.run(run_id), state_of[run_id]) for run_id in begun}
    return {run_id: rate for run_id, rate in rates.items() if rate is not None}


def _row(run: Run, state: RunState, names: Sequence[str], history: History, rate: float | None) -> PlanRow:
    if state.state == "done":
        return PlanRow(run, state, tuple(names), 0.0)
    spread = history.spread(run, state.step or 0, rate)
    return PlanRow(run, state, tuple(names), None if spread is None else spread[0], spread)


def _workers(left: Sequence[PlanRow]) -> int:
    """As many runs at once as the cores allow."""
    threads = max((Resources.of(row.run.resources).threads for row in left), default=1)
    return max(1, min(usable_cores() // max(1, threads), len(left) or 1))
