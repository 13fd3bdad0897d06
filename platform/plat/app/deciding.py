"""Add seeds until the claims of a file are decided (`decide`): which runs come next, and the plan written before them.

The runs of a look are those that the verdicts on the claims ask for (`Verdict.planned`). So nothing is kept beside the
results: a killed sweep goes on with the same command, and everybody who has the runs sees the same decisions.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from plat.app.sweeping import make_home, open_store
from plat.errors import SpecError
from plat.store.home import Home
from plat.units import are, counted
from plat.words.states import RunStatus

if TYPE_CHECKING:
    from plat.app.sweeping import Sweep
    from plat.dispatch.sweep_ends import SweepReport
    from plat.spec.expansion.experiment import Experiment, Run
    from plat.store.mlflow.plan_record import PlanRecord
    from plat_analysis.claims.engine import Planned, Verdict

AVAILABLE = "mean_delta_positive, mean_delta_small, delta_larger, increasing, level, trend, trend_over_measures"


@dataclass(frozen=True)
class Standing:
    """Where the claims of a file with `decide` stand.

    verdicts  the verdicts on claims that are judged at looks
    """

    experiment: Experiment
    verdicts: list[Verdict]

    @property
    def planned(self) -> list[Planned]:
        return [verdict.planned for verdict in self.verdicts if verdict.planned is not None]

    @property
    def next_runs(self) -> list[Run]:
        """Return the runs that the next look of any claim lacks, in the order of the file's blocks."""
        needed = dict.fromkeys(run for planned in self.planned for run in planned.needs)
        by_id = {run.id: run for run in self.experiment.runs}
        return [by_id[run] for run in needed]

    @property
    def line(self) -> str:
        """Return a line on the claims: `2 of 5 rows are decided; the next look is at 12 pairs: 24 runs`."""
        rows, left = (sum(getattr(one, name) for one in self.planned) for name in ("rows", "open"))
        done = f"{self.experiment.name}: {rows - left} of {counted(rows, 'row')} {are(rows)} decided or stopped"
        if not left:
            return done
        looks = sorted({one.look for one in self.planned if one.open})
        at = " and ".join(map(str, looks))
        runs = counted(len(self.next_runs), "run")
        return f"{done}; the next look is at {at} of at most {self.experiment.decide.looks[-1]} pairs: {runs}"  # type: ignore[union-attr]


def standing(home: Home, uri: str, experiment: Experiment) -> Standing:
    """Judge the claims of a file with `decide` by what the store has. Raises StoreError if it cannot be read."""
    from plat.app.importing import load_results
    from plat_analysis.claims.engine import judge_planned

    frames = load_results(home, uri, experiment) if home.exists() else None
    return Standing(experiment, judge_planned(frames, experiment))


def reduced(home: Home, uri: str, experiment: Experiment) -> Experiment:
    """Return an experiment with `decide` as the runs that its claims have asked for by now; any other as it is."""
    if experiment.decide is None:
        return experiment
    from plat_analysis.claims.planned import asked_for

    return asked_for(experiment, standing(home, uri, experiment).verdicts)


def check_decide(experiment: Experiment) -> Standing:
    """Return where the claims stand before any run. Raises SpecError if none of them can be judged at looks.

    Raises SpecError as well if one margin would be used for measures in different units.
    """
    from plat_analysis.claims.engine import judge_planned

    assert experiment.decide is not None
    before = Standing(experiment, judge_planned(None, experiment))
    if not before.planned:
        if not experiment.claims:
            what = "decide needs a claim, and the file has none"
            fix = "add one to `claims:`, for example with the check mean_delta_positive"
        else:
            checks = ", ".join(dict.fromkeys(str(claim["check"]) for claim in experiment.claims))
            what = f"decide: none of the file's claims can be judged while seeds are added ({checks})"
            fix = f"leave out decide and plan the seeds; or use one of the checks {AVAILABLE}"
        raise SpecError(what, where=experiment.decide.where, fix=fix)
    units = {part for one in before.planned for part in one.unit.split(" and ")}
    if experiment.decide.margin is not None and len(units) > 1:
        what = (
            f"decide: margin: {experiment.decide.margin:g} is one number, and the claims' measures have several units"
        )
        raise SpecError(what, where=experiment.decide.where, fix="leave it out, and give each claim its `smallest`")
    return before


def check_plan(home: Home, uri: str, experiment: Experiment) -> tuple[PlanRecord, bool]:
    """Return the plan of a file with `decide`, and True if the store has it already.

    Raises SpecError for runs that were seen before a plan was written, and for another plan of the same runs, or of the
    same seeds of the file.
    """
    from plat.store.mlflow.plan_record import read_plans

    before = check_decide(experiment)
    plan = own_plan(experiment)
    known = read_plans(uri) if home.exists() else []
    if written := _check_others(experiment, plan, known):
        return written, True
    if not any(plan.overlaps(earlier) for earlier in known):  # else it is the same plan for changed code
        _check_unseen(home, uri, experiment, _all_runs(experiment, before))
    return plan, False


def own_plan(experiment: Experiment) -> PlanRecord:
    """Return the plan of a file with `decide`, without the time."""
    from plat.store.mlflow.plan_record import plan_record

    by_seed: dict[object, str] = {}
    for run in experiment.runs:
        by_seed.setdefault(run.axes.get("seed"), run.id)
    return plan_record(experiment, list(by_seed.values()))


def _check_others(experiment: Experiment, plan: PlanRecord, known: Sequence[PlanRecord]) -> PlanRecord | None:
    """Return the plan as it was written, None if it was not. Raises SpecError for another plan of the same runs."""
    assert experiment.decide is not None
    for earlier in known:
        if earlier.digest == plan.digest:
            return earlier
    for earlier in known:
        if earlier.overlaps(plan) and not (earlier.agrees(plan) and earlier.file == plan.file):
            looks = ", ".join(map(str, earlier.looks))
            margin = "" if earlier.margin is None else f", margin {earlier.margin:g}"
            claims = "" if earlier.claims == plan.claims else ", other claims"
            of = "" if earlier.file == plan.file else f" of {earlier.file}"
            made = f"a plan{of} of {earlier.written} UTC (looks at {looks}{margin}{claims})"
            what = f"these seeds have {made}, which is fixed"
            fix = f"sweep with that plan and its claims; {_fresh(experiment)}"
            raise SpecError(what, where=experiment.decide.where, fix=fix)
    return None


def _fresh(experiment: Experiment) -> str:
    return f"a new plan takes fresh seeds: add matrix.seed=[{max(experiment.axes['seed']) + 1}]"


def _check_unseen(home: Home, uri: str, experiment: Experiment, claimed: Sequence[str]) -> None:
    """Raise SpecError if one of the runs of a new plan has a result, in the home or in the store."""
    from plat.store.many_runs import states
    from plat.store.mlflow.stored_runs import stored_runs

    assert experiment.decide is not None
    seen = {run for run, state in states(home, claimed).items() if state.state == RunStatus.DONE}
    if home.exists():
        stored = stored_runs(home, uri, claimed)
        seen |= {run for run in claimed if run in stored and stored[run].outcome}
    if seen:
        what = f"{len(seen)} of the {len(claimed)} runs of this plan {are(len(seen))} done already, without a plan"
        judged = f"`plat claims {experiment.path} decide=false` judges the present runs once"
        raise SpecError(what, where=experiment.decide.where, fix=f"{judged}; {_fresh(experiment)}")


def plan_note(home: Home, uri: str, experiment: Experiment) -> tuple[str, bool]:
    """Return when the plan of a file with `decide` was written, in words, and True; else a warning or "", and False."""
    from plat.store.mlflow.plan_record import read_plans

    if experiment.decide is None:
        return _judged_at_looks(home, uri, experiment), False
    plan, known = own_plan(experiment), read_plans(uri) if home.exists() else []
    own = next((one for one in known if one.digest == plan.digest), None)
    if own is None:
        return (
            f"{experiment.name}: the store has no such plan, so its looks may have been chosen after the results",
            False,
        )
    of_file = [one for one in known if one.file == plan.file]
    nth = f", plan {of_file.index(own) + 1} of {len(of_file)} of this file" if len(of_file) > 1 else ""
    return f"written {own.written} UTC{nth}", True


def _judged_at_looks(home: Home, uri: str, experiment: Experiment) -> str:
    """Return a warning if seeds of a file without `decide` were added by a plan of it, which stopped on results."""
    from plat.store.mlflow.plan_record import read_plans

    seeds = set(experiment.axes.get("seed", ()))
    plans = read_plans(uri, experiment.name) if home.exists() else []
    written = [plan.written for plan in plans if seeds & set(plan.seeds)]
    if not written:
        return ""
    why = f"{experiment.name}: a plan of {written[-1]} UTC judged these seeds at several looks; intervals and verdicts"
    return f"{why} here ignore that, `plat claims {experiment.path} decide=true` allows for it"


@dataclass(frozen=True)
class Foreseen:
    """The plan of a file with `decide`, before its next look.

    expected  runs if no row has an effect, and if every effect equals the margin
    lines     the plan in words: looks, when rows can be shown, expected runs, when written
    """

    experiment: Experiment
    plan: PlanRecord
    is_written: bool
    first: int
    most: int
    expected: tuple[int, int]
    lines: list[str]

    def to_json(self) -> dict[str, Any]:
        """Return the plan for a program, as `DecidePlan` of the command line."""
        assert self.experiment.decide is not None
        return {
            "experiment": self.experiment.name,
            "looks": list(self.plan.looks),
            "error": self.plan.error,
            "margin": self.experiment.decide.margin,
            "first_runs": self.first,
            "most_runs": self.most,
            "expected_runs": list(self.expected),
            "written": self.plan.written if self.is_written else None,
        }


def foresee(home: Home, uri: str, experiment: Experiment) -> Foreseen:
    """Return the plan of a file with `decide`. Raises SpecError as `check_plan` does."""
    from plat_analysis.statistics.sequential import Plan, expected_pairs

    plan, is_written = check_plan(home, uri, experiment)
    before = check_decide(experiment)
    looks, most, rows = plan.looks, len(_all_runs(experiment, before)), max(one.rows for one in before.planned)
    first, unused = len(before.next_runs), before.experiment.decide.unused  # type: ignore[union-attr]
    lines = [f"decide: looks at {', '.join(map(str, looks))} pairs; {first} runs for the first, at most {most}"]
    if unused:
        beyond = f"from {unused[0]} on {are(len(unused))} beyond the last look and not used"
        lines.append(f"  {counted(len(unused), 'seed')} of the matrix {beyond}")
    planned = Plan(looks, plan.error)
    for open_rows in sorted({1, *(one.rows for one in before.planned)}):
        look = planned.first_look(open_rows)
        when = f"from {look} pairs on" if look else "never"
        before_it = " (before, it can only be stopped)" if look and look > looks[0] else ""
        lines.append(f"  with {counted(open_rows, 'open row')}, a row can be shown {when}{before_it}")
    none, all_rows = (round(first * expected_pairs(planned, rows, effect) / looks[0]) for effect in (0.0, 1.0))
    lines.append(
        f"  expected, if values spread as much as the margin: about {none} runs if no row has an effect, {all_rows} if "
        "every effect equals the margin"
    )
    written = f"  plan written {plan.written} UTC; {standing(home, uri, experiment).line}" if is_written else ""
    lines.append(written or "  `plat sweep` writes the plan into the store")
    return Foreseen(experiment, plan, is_written, first, most, (none, all_rows), lines)


def _all_runs(experiment: Experiment, before: Standing) -> list[str]:
    """Return the ids of all runs that the plan can ask for: of every seed in the cells of its first look."""
    first = {run for planned in before.planned for run in planned.needs}
    of_cell: dict[str, list[str]] = {}
    for labels, run_id in experiment.cells:
        cell = repr([(name, label) for name, label in labels.items() if name != "seed"])
        of_cell.setdefault(cell, []).append(run_id)
    return list(dict.fromkeys(run for runs in of_cell.values() if first & set(runs) for run in runs))


def run_looks(
    sweep: Sweep,
    experiments: Sequence[Experiment],
    run: Callable[[list[Run]], SweepReport],
    say: Callable[[str], None],
    once: bool = False,
) -> SweepReport:
    """Write the plans, then execute the runs of one look after the other, until no claim asks for more.

    Files without `decide` are executed whole, with the first look. Stops where runs of a look are missing after it:
    they failed, were left out, or wait on a scheduler. Returns the ends of all runs.

    run   executes some runs
    say   shows a line after each look
    once  stop after the first runs, whatever is missing

    Raises SpecError before any run where a plan cannot be written (see `check_plan`).
    """
    from plat.planning.cost import in_order
    from plat.store.mlflow.plan_record import write_plan

    deciding = [experiment for experiment in experiments if experiment.decide is not None]
    plans = {experiment.name: check_plan(sweep.home, sweep.uri, experiment) for experiment in deciding}
    make_home(sweep)
    open_store(sweep.home, sweep.uri)
    for experiment in deciding:
        plan, is_written = plans[experiment.name]
        if not is_written:
            check = partial(_check_others, experiment, plan)
            write_plan(sweep.home, sweep.uri, experiment, plan, check)
    whole = [one for experiment in experiments if experiment.decide is None for one in in_order(experiment)]
    total: SweepReport | None = None
    said: dict[str, str] = {}
    while True:
        stands = [standing(sweep.home, sweep.uri, experiment) for experiment in deciding]
        for stand in stands:
            if said.get(stand.experiment.name) != stand.line:
                said[stand.experiment.name] = stand.line
                say(stand.line)
        wanted = {one.id: one for one in [*whole, *(one for stand in stands for one in stand.next_runs)]}
        if total is not None and (not wanted or wanted.keys() <= total.ends.keys()):
            total.valueless = any(one.open and not one.needs for stand in stands for one in stand.planned)
            return total
        report = run(list(wanted.values()))
        if total is not None:
            report.ends = {**total.ends, **report.ends}
        total, whole = report, []
        if report.interrupted or report.exit_code or once:
            return total
