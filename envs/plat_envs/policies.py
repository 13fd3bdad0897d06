"""Measure the scripted policies: `python -m plat_envs.policies [TASK,...] [key=value ...] [--markdown]`.

Prints the success of every policy of POLICIES with its 95 % interval (Wilson), for some tasks or
for all; with `--reward` the mean reward of an episode with its 95 % interval (normal). The instances and slips are
those of an evaluation of a run.
"""

from __future__ import annotations

import argparse
import random
import sys
from collections.abc import Callable, Mapping, Sequence
from statistics import NormalDist, fmean, stdev

from plat_envs.api import PICTURE_RENDERINGS, RENDERINGS, Scripted, configure, find_environment
from plat_envs.environment_errors import BadEnvironment
from plat_envs.instances import SPLITS, evaluation_seeds
from plat_envs.show import answer, read_option
from plat_envs.turns.episode import Episode

# The policies: what a task yields without learning.
#
#     random    a random valid answer
#     blind     a sensible answer that ignores what makes the task hard
#     greedy    one step of look-ahead, or an obvious rule
#     optimal   the good answer of the demonstrations: a shortest way (slips ignored), or the right answer
#
# If `blind` succeeds as often as a learned policy, success is no sign of attention to the problem. `blind` and `greedy`
# read the game behind the text, so every task has its own (`plat_envs.api.Scripted`).

POLICIES = ("random", "blind", "greedy", "optimal")


def response(environment: Episode, policy: str, rng: random.Random) -> str:
    """Return the response of a policy (one of POLICIES) in the current state.

    `blind` and `greedy` answer at random if they have no action. They raise BadEnvironment for a task without such
    policies, and `greedy` for real MetaMathQA problems.
    """
    if policy in ("blind", "greedy"):
        if not isinstance(environment, Scripted):
            raise BadEnvironment(f"no {policy} policy is written for {environment.task}", fix="random or optimal")
        answer = environment.blind() if policy == "blind" else environment.greedy()
        if answer:
            return f"{environment.templates[0]} </think> <answer> {answer} </answer>"
    return environment.demonstrate(rng, "template", good=policy == "optimal")


EVAL_SEED = 123  # the default of `eval.seed`
ROWS: tuple[tuple[str, Mapping[str, object]], ...] = (
    ("sokoban", {}),
    ("frozenlake", {}),
    ("frozenlake", {"success_rate": 1}),
    ("frozenlake", {"detours": 1}),
    ("metamathqa", {}),
    ("countdown", {}),
    ("searchqa", {}),
    ("deepcoder", {}),
    ("bandit", {}),
    ("webshop", {}),
)


def fixed_instances(
    task: str, options: Mapping[str, object], split: str, count: int, rendering: str = "compact"
) -> tuple[Episode, list[int]]:
    """Return environment and instance seeds of an evaluation of `count` instances.

    Raises BadEnvironment for a wrong task or option, an environment that is no `Episode`, and too few problems.
    """
    spec = find_environment(task)
    environment = spec.make(configure(spec, options), split, rendering)
    if not isinstance(environment, Episode):
        raise BadEnvironment(f"{task} has no scripted policies", fix="derive it from plat_envs.turns.episode.Episode")
    seeds = evaluation_seeds(environment, EVAL_SEED, count)
    distinct = len({environment.reset(seed) and environment.problem for seed in seeds})
    if distinct < count:
        raise BadEnvironment(f"{task} has {distinct} different problems for {split}", fix=f"--instances {distinct}")
    return environment, seeds


def successes(environment: Episode, seeds: Sequence[int], policy: str) -> list[bool]:
    """Return for each instance True if the policy solves it; instance n has noise n, as in an evaluation."""
    return [solved for solved, _ in played(environment, seeds, policy)]


def played(environment: Episode, seeds: Sequence[int], policy: str) -> list[tuple[bool, float]]:
    """Return for each instance whether the policy solves it, and its summed reward."""
    results = []
    for number, seed in enumerate(seeds):
        rng, total = random.Random(f"{policy}/{number}"), 0.0
        environment.reset(seed, noise=number)
        while not environment.done:
            total += environment.step(response(environment, policy, rng))[1]
        results.append((environment.success, total))
    return results


def wilson(solved: int, count: int, level: float = 0.95) -> tuple[float, float]:
    """Return the Wilson score interval (low, high) of the share `solved / count`, in [0, 1]."""
    z = NormalDist().inv_cdf(0.5 + level / 2)
    share = solved / count
    centre = (share + z * z / (2 * count)) / (1 + z * z / count)
    half = z / (1 + z * z / count) * (share * (1 - share) / count + z * z / (4 * count * count)) ** 0.5
    return max(0.0, centre - half), min(1.0, centre + half)


def success_cell(results: Sequence[tuple[bool, float]]) -> str:
    """Return the share of solved instances in percent with its interval, e.g. `61.2 [57.0, 65.3]`."""
    solved, count = sum(success for success, _ in results), len(results)
    low, high = wilson(solved, count)
    return f"{100 * solved / count:.1f} [{100 * low:.1f}, {100 * high:.1f}]"


def reward_cell(results: Sequence[tuple[bool, float]]) -> str:
    """Return the mean of the rewards with its interval, e.g. `0.24 [0.21, 0.27]`."""
    rewards = [reward for _, reward in results]
    half = NormalDist().inv_cdf(0.975) * stdev(rewards) / len(rewards) ** 0.5 if len(rewards) > 1 else 0.0
    return f"{fmean(rewards):.2f} [{fmean(rewards) - half:.2f}, {fmean(rewards) + half:.2f}]"


def table(
    rows: Sequence[tuple[str, Mapping[str, object]]],
    split: str,
    count: int,
    rendering: str = "compact",
    cell: Callable[[Sequence[tuple[bool, float]]], str] = success_cell,
) -> list[list[str]]:
    """Return a heading, and for each (task, options) a line with a cell for each policy."""
    lines = [["task", *POLICIES]]
    for task, options in rows:
        environment, seeds = fixed_instances(task, options, split, count, rendering)
        cells = [cell(played(environment, seeds, policy)) for policy in POLICIES]
        lines.append([" ".join([task, *(f"{name}={value}" for name, value in options.items())]), *cells])
    return lines


def as_text(lines: Sequence[Sequence[str]], markdown: bool) -> str:
    """Return the table, whose first line is the heading, in aligned columns or in Markdown."""
    if markdown:
        heading, *rest = ["| " + " | ".join(line) + " |" for line in lines]
        return "\n".join([heading, "|---" * len(lines[0]) + "|", *rest])
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return "\n".join("  ".join(map(str.ljust, line, widths)).rstrip() for line in lines)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m plat_envs.policies", description=__doc__)
    parser.add_argument("task", nargs="?", help="these tasks only, e.g. sokoban,bandit")
    parser.add_argument("options", nargs="*", help="options of its environment, key=value")
    parser.add_argument("--instances", type=int, default=512, metavar="N", help="how many (default 512)")
    parser.add_argument("--split", choices=SPLITS, default="heldout", help="(default heldout)")
    renderings = RENDERINGS + PICTURE_RENDERINGS
    parser.add_argument("--rendering", choices=renderings, default="compact", help="(default compact)")
    parser.add_argument("--reward", action="store_true", help="the mean reward in place of the success")
    parser.add_argument("--markdown", action="store_true", help="a Markdown table")
    return answer(parser, _measured, arguments)


def _measured(given: argparse.Namespace) -> str:
    """Return the table that the arguments ask for. Raises BadEnvironment for a wrong task, option or number."""
    if given.instances < 1:
        raise BadEnvironment(f"{given.instances} instances cannot be played", fix="--instances 512")
    options = dict(map(read_option, given.options))
    rows = [(task, options) for task in given.task.split(",")] if given.task else ROWS
    cell = reward_cell if given.reward else success_cell
    return as_text(table(rows, given.split, given.instances, given.rendering, cell), given.markdown)


if __name__ == "__main__":
    sys.exit(main())
