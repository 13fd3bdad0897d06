"""Words about a server that a user names: what is wrong with its address, and what an error of it says on one line."""

from __future__ import annotations

from http.client import BadStatusLine, RemoteDisconnected, UnknownProtocol
from urllib.parse import urlsplit, urlunsplit

from plat_envs.environment_errors import BadEnvironment

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
