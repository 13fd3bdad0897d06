"""The errors of the environments, and checks that raise them."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches


class BadEnvironment(Exception):
    """Bad options, unknown names or unreadable data: what happened, where, and how to fix it."""

    def __init__(self, what: str, *, where: str | None = None, fix: str | None = None) -> None:
        super().__init__(what)
        self.what = what
        self.where = where
        self.fix = fix

    def __str__(self) -> str:
        return " | ".join(part for part in (self.what, self.where, self.fix) if part)


class ServiceError(BadEnvironment):
    """A service that an environment needs does not answer, after retries. It ends the run, and is no observation."""


def one_of(name: object, valid: Iterable[str]) -> str:
    """Return advice for a misspelt name: the nearest valid one if there is one, then all of them."""
    names = list(valid)
    near = get_close_matches(str(name), names, n=1)
    return (f"did you mean {near[0]!r}? " if near else "") + f"one of: {', '.join(names)}"


def check_choice(name: str, value: object, choices: tuple[str, ...]) -> None:
    """Raise BadEnvironment unless `value` is one of `choices`."""
    if value not in choices:
        raise BadEnvironment(f"{name} is {value!r}", fix=one_of(value, choices))


def check_range(name: str, value: float, low: float, high: float) -> None:
    """Raise BadEnvironment unless low <= value <= high; NaN fails."""
    if not low <= value <= high:
        raise BadEnvironment(f"{name} is {value!r}", fix=f"a number from {low:g} to {high:g}")
