"""Check the options of a dataset of reasoning-gym against the fields of its config, before the package reads them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import MISSING, Field, fields
from typing import Any, Literal, NamedTuple, get_args, get_origin, get_type_hints

from plat_envs.environment_errors import one_of

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
