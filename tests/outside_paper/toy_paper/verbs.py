"""`plat guess`: a verb, a check of `plat doctor` and a pruner, as another package publishes them."""

from __future__ import annotations

from collections.abc import Mapping

from typing_extensions import TypedDict

from plat.cli.common import VerbGroup, verb
from plat.cli.result import Result
from plat.plugins.doctor import Finding
from plat.search.run_pruner import RunPruner


class GuessData(TypedDict):
    """plat guess"""

    guesses: int


@verb(GuessData)
def guess(number: int) -> Result:
    """Say how many guesses a bisection needs for numbers up to NUMBER."""
    needed = number.bit_length()
    return Result({"guesses": needed}, f"{needed} guesses")


GUESSES = VerbGroup("Guesses, in two ways.", {"bisect": guess, "halve": guess})


def check() -> Finding:
    return Finding("warning", "nobody has guessed yet", "guess")


def judge(curves: Mapping[str, dict[int, float]], step: int, options: Mapping[str, float]) -> str:
    """Stop a run whose success is below `least` after `after` steps."""
    success = curves["success"].get(step)
    if success is None or step < options["after"] or success >= options["least"]:
        return ""
    return f"only {success:.2f} at step {step}"


PRUNER = RunPruner(options={"least": 0.5, "after": 2}, metrics=("success",), judge=judge)
