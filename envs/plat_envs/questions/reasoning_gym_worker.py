"""Make and score items of reasoning-gym: a JSON request on each line of stdin, its answer on a line of stdout.

{"do": "make", "dataset": "chain_sum", "options": "", "number": 5}   ->  {"value": "What is 3 + 4?"}
{"do": "score", ..., "answer": "7"}                                  ->  {"value": 1.0}
a dataset that is not there                                          ->  {"kind": "dataset", "what": ..., "known": []}
wrong options                                                        ->  {"kind": "options", "what": ..., "fix": ...}
"""

from __future__ import annotations

import json
import os
import random
import sys
from collections.abc import Mapping
from dataclasses import MISSING, Field, fields
from functools import lru_cache
from typing import Any, Literal, NamedTuple, get_args, get_origin, get_type_hints

from plat_envs.environment_errors import one_of


@lru_cache(maxsize=256)
def item(name: str, options: str, number: int) -> tuple[Any, dict[str, Any]]:
    """Return a dataset of one item whose seed is this number, and the item. Raises the package's errors.

    What it draws from Python's own generator is a function of the number too.
    """
    import reasoning_gym

    random.seed(f"{name}/{number}")
    # One item: some datasets draw all their items when they are made.
    dataset = reasoning_gym.create_dataset(name, seed=number, size=1, **json.loads(options or "{}"))
    return dataset, dataset[0]


def answer(request: dict[str, Any]) -> dict[str, Any]:
    """Return the answer to a request; errors of the package are answers too."""
    try:
        from reasoning_gym.factory import DATASETS
    except ImportError as error:
        return {"kind": "package", "what": str(error)}
    name, options, number = request["dataset"], request["options"], request["number"]
    if name not in DATASETS:
        return {"kind": "dataset", "what": name, "known": sorted(DATASETS)}
    config_type = DATASETS[name][1]
    if problem := problem_of(config_type, json.loads(options or "{}")):
        return {"kind": "options", **problem._asdict()}
    try:
        dataset, made = item(name, options, number)
        if request["do"] == "make":
            return {"value": made["question"]}
        random.seed(f"{name}/{number}/score")
        return {"value": float(dataset.score_answer(request["answer"], made))}
    except Exception as error:  # the package raises errors of many classes
        if request["do"] == "score":
            return {"value": 0.0}
        return {"kind": "options", **refusal(config_type, error)._asdict()}


def main() -> None:
    """Answer requests until stdin ends. What the package prints goes to stderr."""
    with os.fdopen(os.dup(1), "wb") as out:
        os.dup2(2, 1)
        for line in sys.stdin.buffer:
            out.write(json.dumps(answer(json.loads(line))).encode() + b"\n")
            out.flush()


# Check the options of a dataset of reasoning-gym against the fields of its config, before the package reads them.

OF_PLAT = ("seed", "size")  # plat chooses each item itself
KINDS = {int: "a whole number", float: "a number", bool: "true or false", str: "a text", type(None): "null"}


class Problem(NamedTuple):
    """What is wrong with the options, and what is accepted."""

    what: str
    fix: str


def problem_of(config_type: type, options: Mapping[str, Any]) -> Problem | None:
    """Return what is wrong with the first wrong option, by its name or the type of its value; None if nothing is."""
    known = {field.name: field for field in fields(config_type) if field.name not in OF_PLAT}
    for name, value in options.items():
        if name in OF_PLAT:
            return Problem(f"the option {name!r} is plat's own", f"leave it out; {one_of('', known)}")
        if name not in known:
            return Problem(f"there is no option {name!r}", one_of(name, known) if known else "it has no options")
        if wanted := _wanted(get_type_hints(config_type)[name], value):
            return Problem(f"the option {name!r} is {json.dumps(value):.60}", f"{wanted}{_default(known[name])}")
    return None


def refusal(config_type: type, error: Exception) -> Problem:
    """Return what the package says of values that do not go together or are out of range."""
    said = str(error).partition("\n")[0]
    what = said if said and isinstance(error, AssertionError | ValueError) else f"{type(error).__name__}: {said}"
    options = [f"{field.name}{_default(field)}" for field in fields(config_type) if field.name not in OF_PLAT]
    return Problem(
        f"no item can be made with its options: {what}", f"other values; its options: {', '.join(options) or 'none'}"
    )


def _wanted(kind: Any, value: Any) -> str:
    """Return the accepted values in words, "" if this one is accepted or only the package can say."""
    choices = get_args(kind)
    if get_origin(kind) is Literal:
        return "" if value in choices else one_of(value, map(str, choices))
    kinds = choices if type(None) in choices else (kind,)
    if not all(one in KINDS for one in kinds) or any(_fits(one, value) for one in kinds):
        return ""
    return " or ".join(KINDS[one] for one in kinds)


def _fits(kind: type, value: Any) -> bool:
    return type(value) is kind or (kind is float and type(value) is int)


def _default(field: Field[Any]) -> str:
    """Return the default of an option in brackets, "" where JSON cannot say it."""
    if field.default is MISSING or not isinstance(field.default, int | float | str | None):
        return ""
    return f" (by default {json.dumps(field.default)})"


if __name__ == "__main__":
    main()
