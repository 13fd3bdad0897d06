"""The errors of the environments, and checks that raise them."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches
from http.client import BadStatusLine, RemoteDisconnected, UnknownProtocol
from urllib.parse import urlsplit, urlunsplit


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


# Words about a server that a user names: what is wrong with its address, and what an error of it says on one line.

LONGEST = 200  # of what a server said, in an error [characters]


def check_parts(what: str, address: str, with_query: bool) -> None:
    """Raise BadEnvironment if an address has a part that no request would carry.

    what        names the address in the error, e.g. "searchqa: server"
    with_query  requests carry its query
    """
    parts = urlsplit(address)
    host = parts.netloc.rpartition("@")[2]
    kept = urlunsplit((parts.scheme, host, parts.path, parts.query if with_query else "", ""))
    found = {
        "a name or password": "@" in parts.netloc,
        "a query": bool(parts.query) and not with_query,
        "a fragment": bool(parts.fragment),
    }
    if unsent := " and ".join(part for part, is_there in found.items() if is_there):
        raise BadEnvironment(f"{what} is {address!r}, with {unsent}, which no request carries", fix=f"write {kept}")


def one_line(text: str) -> str:
    """Return the beginning of a text of a server as one line of characters that can be printed."""
    plain = " ".join(text.split())[:LONGEST]
    return "".join(character if character.isprintable() else "?" for character in plain)


def said(error: Exception) -> str:
    """Return what an error of a connection says, as one line."""
    text = one_line(str(getattr(error, "reason", error))) or type(error).__name__
    is_garbage = isinstance(error, BadStatusLine | UnknownProtocol) and not isinstance(error, RemoteDisconnected)
    return f"its answer is no HTTP: {text}" if is_garbage else text
