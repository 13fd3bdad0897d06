"""`plat trajectory RUN`: observations, reasoning and actions of a policy in one validation instance."""

from __future__ import annotations

import math
from itertools import takewhile
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typing_extensions import TypedDict

from plat.characters import escaped
from plat.cli.common import HomeOption, RunArgument, verb
from plat.cli.result import Result
from plat.errors import RunError, SpecError

if TYPE_CHECKING:
    from plat.store.run_directory.paths import RunPaths


class TrajectoryData(TypedDict):
    """plat trajectory"""

    run: str
    step: int
    instance: int
    trajectory: dict[str, Any]
    """Seed, success, and turns: each what the policy saw, what it said and its reward."""


@verb(TrajectoryData)
def trajectory(
    run: RunArgument,
    instance: Annotated[int, typer.Option("--instance", metavar="N", help="Which instance, from 0.")] = 0,
    step: Annotated[int | None, typer.Option("--step", metavar="N", help="After which step [the newest].")] = None,
    home: HomeOption = None,
) -> Result:
    """Print a validation instance: board, reasoning, actions.

    The run must have been made with `eval.trajectories`, the number of instances that it keeps.
    """
    from plat.app.home_runs import find_run, home_to_read

    return read_trajectory(find_run(home_to_read(home), run), instance, step)


def read_trajectory(paths: RunPaths, number: int, step: int | None) -> Result:
    """Return the trajectory of validation instance `number` (from 0) at a step; None: the newest.

    Raises SpecError when the run did not keep this trajectory, and RunError when it cannot be read.
    """
    from plat.app.home_runs import run_name
    from plat.store.run_directory.history import run_history
    from plat_rl.metric_names import VAL_TRAJECTORIES

    kept = {table.step: table.data for table in run_history(paths)[1] if table.name == VAL_TRAJECTORIES}
    if not kept:
        fix = "add eval.trajectories=8, which makes a new run and keeps the trajectories of 8 validation instances"
        raise SpecError(f"{run_name(paths)} kept no trajectories", where=str(paths.root), fix=fix)
    at = max(kept) if step is None else step
    if at not in kept:
        steps = ", ".join(map(str, sorted(kept)))
        raise SpecError(f"no trajectories of step {at}", where="--step", fix=f"one of: {steps}")
    try:
        count = len(kept[at])
        lines = _lines(kept[at][number], f"step {at} · validation instance {number}") if 0 <= number < count else None
    except (TypeError, ValueError, KeyError, AttributeError) as error:
        raise RunError(f"the trajectories of {run_name(paths)} cannot be read", where=str(paths.root)) from error
    if lines is None:
        raise SpecError(f"no trajectory of instance {number}", where="--instance", fix=f"from 0 to {count - 1}")
    data = {"run": paths.id, "step": at, "instance": number, "trajectory": kept[at][number]}
    return Result(data, "\n".join(escaped(line) for line in lines))


def _lines(trajectory: dict[str, Any], title: str) -> list[str]:
    from plat_envs.stand_in import ANSWER, END_ANSWER, END_THINK

    turns = [(str(seen), str(said), float(reward)) for seen, said, reward in trajectory["turns"]]
    end = "solved" if trajectory["success"] else "not solved"
    total = math.fsum(reward for *_, reward in turns)
    lines = [f"{title} · seed {trajectory['seed']} · {end} · return {total:g}"]
    for turn, (seen, said, reward) in enumerate(turns, start=1):
        thought, closed, answer = said.partition(END_THINK)
        answer = answer.replace(ANSWER, "").replace(END_ANSWER, "").strip()
        lines += ["", f"turn {turn} · reward {reward:g}", *(f"    {line}" for line in _board(seen))]
        lines += [f"  thinks   {thought.strip() or '(nothing)'}" + ("" if closed else "  (does not stop)")]
        lines += [f"  answers  {answer or '(nothing)'}"]
    return lines


def _board(observation: str) -> list[str]:
    """Return an observation without its think tag; a square board row by row."""
    from plat_envs.stand_in import CELLS, THINK

    words = observation.removesuffix(THINK).split(" ")
    cells = list(takewhile(CELLS.__contains__, words[1:]))
    size = math.isqrt(len(cells))
    if size < 2 or size * size != len(cells):
        return observation.removesuffix(THINK).strip().splitlines()
    rows = [" ".join(cells[start : start + size]) for start in range(0, len(cells), size)]
    rest = " ".join(words[1 + len(cells) :]).strip()
    return [words[0], *rows, *([rest] if rest else [])]
