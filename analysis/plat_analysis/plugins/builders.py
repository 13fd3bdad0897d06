"""Find report builders and claim checks by entry point, check their arguments, and note which of them failed.

A builder (group `plat.reports`) is `build(frames, experiment, **args) -> list[Table | Figure]`; a check (group
`plat.claims`) is `check(frames, experiment, **args) -> Verdict`. Any installed package may publish some.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import entry_points
from typing import Any

from plat.errors import PlatError, PluginError, SpecError
from plat.suggest import suggest
from plat.user_code import in_words, place_of, position_of, user_code
from plat_analysis.shown_text import printable

FIX = "fix or uninstall the package that publishes it; `plat doctor` tries all of them"


def find(group: str, name: str, where: str) -> Callable[..., Any]:
    """Return the builder or check of that name. Raises SpecError if it is unknown, PluginError if it does not load."""
    known = {point.name: point for point in entry_points(group=group)}
    if name not in known:
        raise SpecError(
            f"unknown {'report builder' if group == 'plat.reports' else 'claim check'} {name!r}",
            where=where,
            fix=suggest(name, sorted(known), "known"),
        )
    try:
        with user_code(f"{name!r} in {group} cannot be loaded", FIX):
            function: Callable[..., Any] = known[name].load()
            if not callable(function):
                raise PluginError(
                    f"{name!r} in {group} is {function!r:.60}, not a function",
                    where=position_of(known[name].value),
                    fix="publish the function itself, such as `BUILDER = build`",
                )
    except PluginError as error:
        error.where = f"{error.where} (named at {where})" if error.where else where
        raise
    return function


def check_arguments(function: Callable[..., Any], arguments: dict[str, Any], where: str) -> None:
    """Raise SpecError if a builder or check does not know one of these arguments, or lacks one. Checks no types."""
    signature = inspect.signature(function)
    valid = list(signature.parameters)[2:]
    open_ended = any(parameter.kind is parameter.VAR_KEYWORD for parameter in signature.parameters.values())
    for name in arguments:
        if name not in valid and not open_ended:
            raise SpecError(f"unknown argument {name!r}", where=where, fix=suggest(name, valid, "arguments"))
    try:
        signature.bind(None, None, **arguments)
    except TypeError as error:
        raise SpecError(str(error), where=where, fix=f"its arguments: {', '.join(valid)}") from error


# Failures of single parts of a report; the other parts are still made.


@dataclass(frozen=True)
class Failure:
    """Hold a failed part, where the experiment file asks for it (file:line:column), and how to fix it."""

    what: str
    where: str
    fix: str = ""

    @classmethod
    def of(cls, subject: str, error: Exception, where: str) -> Failure:
        """Return a failure of `subject` (such as `the figure 'curves'`) from the exception that it raised."""
        if isinstance(error, PlatError):
            return cls(printable(f"{subject} could not be made: {error.what}"), error.where or where, error.fix or "")
        place = place_of(error)
        return cls(
            printable(f"{subject} could not be made: {in_words(error)}"),
            f"{place} (asked for at {where})" if place else where,
            "the rest of the report was made; remove this entry, or report the message to the author of its builder",
        )

    def render(self) -> str:
        """Return the lines shown to the user."""
        return PlatError(self.what, where=self.where, fix=self.fix or None).render()
