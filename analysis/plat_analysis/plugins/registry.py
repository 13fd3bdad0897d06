"""Report builders and claim checks by entry point, called with the arguments of the experiment file.

A builder (group `plat.reports`) is `build(frames, experiment, **args) -> list[Table | Figure]`; a check (group
`plat.claims`) is `check(frames, experiment, **args) -> Verdict`. Any installed package may publish some.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from importlib.metadata import entry_points
from typing import Any

from plat.errors import PluginError, SpecError
from plat.suggest import mend
from plat.user_code import user_code

MEND = "mend or uninstall the package that publishes it; `plat doctor` tries them all"


def find(group: str, name: str, where: str) -> Callable[..., Any]:
    """The builder or check of that name; SpecError with the known names otherwise."""
    known = {point.name: point for point in entry_points(group=group)}
    if name not in known:
        raise SpecError(
            f"unknown {'report builder' if group == 'plat.reports' else 'claim check'} {name!r}",
            where=where,
            mend=mend(name, sorted(known), "known"),
        )
    try:
        with user_code(f"{name!r} in {group} cannot be loaded", MEND):
            function: Callable[..., Any] = known[name].load()
    except PluginError as error:
        error.where = f"{error.where} (named at {where})" if error.where else where
        raise
    return function


def call(function: Callable[..., Any], frames: Any, experiment: Any, arguments: dict[str, Any], where: str) -> Any:
    """Call it; an argument it does not know, or one it needs and lacks, is a SpecError that lists the valid ones."""
    check_arguments(function, arguments, where)
    return function(frames, experiment, **arguments)


def check_arguments(function: Callable[..., Any], arguments: dict[str, Any], where: str) -> None:
    """SpecError unless a builder or check can be called with these arguments."""
    signature = inspect.signature(function)
    valid = list(signature.parameters)[2:]
    open_ended = any(parameter.kind is parameter.VAR_KEYWORD for parameter in signature.parameters.values())
    for name in arguments:
        if name not in valid and not open_ended:
            raise SpecError(f"unknown argument {name!r}", where=where, mend=mend(name, valid, "arguments"))
    try:
        signature.bind(None, None, **arguments)
    except TypeError as error:
        raise SpecError(str(error), where=where, mend=f"its arguments: {', '.join(valid)}") from error
