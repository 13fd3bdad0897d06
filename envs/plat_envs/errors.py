"""The one error a user of the environments can meet; the platform shows its three parts."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches


class BadEnvironment(Exception):
    """What went wrong, where, and how to mend it (bad options, unknown names, data that cannot be read)."""

    def __init__(self, what: str, *, where: str | None = None, mend: str | None = None) -> None:
        super().__init__(what)
        self.what = what
        self.where = where
        self.mend = mend

    def __str__(self) -> str:
        return " | ".join(part for part in (self.what, self.where, self.mend) if part)


def one_of(name: object, valid: Iterable[str]) -> str:
    """How to mend a misspelt name: the nearest valid one, then all of them."""
    names = list(valid)
    near = get_close_matches(str(name), names, n=1)
    return (f"did you mean {near[0]!r}? " if near else "") + f"one of: {', '.join(names)}"


def check_choice(name: str, value: object, choices: tuple[str, ...]) -> None:
    """Raise unless `value` is one of `choices`; the message names the nearest."""
    if value not in choices:
        raise BadEnvironment(f"{name} is {value!r}", mend=one_of(value, choices))


def check_range(name: str, value: float, low: float, high: float) -> None:
    """Raise unless low <= value <= high (NaN fails)."""
    if not low <= value <= high:
        raise BadEnvironment(f"{name} is {value!r}", mend=f"a number from {low:g} to {high:g}")
