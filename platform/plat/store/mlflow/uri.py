"""Parse store URIs, and mask their passwords and tokens for display."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import urlsplit

from plat.errors import StoreError
from plat.suggest import suggest

ARTIFACTS = "mlartifacts"  # the folder of the artifacts, beside a SQLite file
KINDS = ("sqlite", "postgresql", "mysql", "mssql", "http", "https", "databricks", "file")
# To the last @: a password that was not written with %2F, %23 and %3F has /, # or ? in it.
_USER_INFO = re.compile(r"(?P<scheme>\b[a-zA-Z][\w+.-]*://)(?P<userinfo>\S*)@")
_PARAMETER = re.compile(r"(?i)(?P<name>[?&;](?:\w*passw(?:or)?d|pwd|\w*token|\w*secret|\w*key|sig)=)[^&#;\s]+")
MOST_FORGOTTEN = 50  # runs named in one command: a longer one is hard to paste


def check_kind(uri: str) -> None:
    """Raise StoreError if the scheme of a URI is not in `KINDS`, or its password makes it unreadable.

    Text without `://` passes. The message has no part of the password.
    """
    kind, colon, _ = uri.partition("://")
    name = kind.partition("+")[0].lower()
    if colon and name not in KINDS:
        raise StoreError(
            f"unknown kind of store {name!r}", where=mask_passwords(uri), fix=suggest(name, KINDS, "one of")
        )
    if colon and name not in ("sqlite", "file") and not _is_readable(uri):
        what = "the address of the store cannot be read: its password has a character with a meaning in addresses"
        fix = "write / as %2F, # as %23, ? as %3F and @ as %40 in the password; a port is a number"
        raise StoreError(what, where=mask_passwords(uri), fix=fix)


def _is_readable(uri: str) -> bool:
    """Return True if the address has a port that is a number, or none, and no @ outside of the user's part."""
    try:
        parts = urlsplit(uri)
        parts.port  # noqa: B018 - raises ValueError for one that is no number
    except ValueError:
        return False
    return "@" in parts.netloc or not any("@" in part for part in (parts.path, parts.query, parts.fragment))


def mask_passwords(text: str) -> str:
    """Replace the passwords and tokens of every URI in a text by `***`, as in `postgresql://me:***@host/db`.

    A single word before the host is a token in a web address (`https://***@host`) and a user in a database URI, where
    it stays. Values of parameters named like a password, token or key are masked as well.
    """
    return _PARAMETER.sub(r"\g<name>***", _USER_INFO.sub(_masked, text))


def shown_uri(uri: str) -> str:
    """Return the URI of a store for display, with passwords masked. A SQLite URI has none and is returned unchanged."""
    return uri if uri.startswith("sqlite") else mask_passwords(uri)


def _masked(match: re.Match[str]) -> str:
    user, colon, _ = match["userinfo"].partition(":")
    if not colon:
        user, colon = ("", "") if match["scheme"].startswith(("http", "databricks")) else (user, None)
    secret = "" if colon is None else f"{colon}***"
    return f"{match['scheme']}{user}{secret}@"


def sqlite_path(uri: str) -> Path | None:
    """Return the absolute path of a `sqlite:///` URI, None for other stores; StoreError for `:memory:` or no path."""
    match = re.match(r"sqlite(?:\+\w+)?://(?P<rest>.*)$", uri)
    if not match:
        return None
    path = match["rest"].removeprefix("/").partition("?")[0]
    if not path or path == ":memory:":
        raise StoreError("an in-memory SQLite store is lost when the command ends", where=uri, fix="name a file")
    return Path(path).absolute()


def artifact_root(uri: str) -> str | None:
    """Return the artifact folder for new MLflow experiments: beside a SQLite file, else None (the store decides)."""
    path = sqlite_path(uri)
    return str(path.parent / ARTIFACTS) if path else None


def gc_command(uri: str, mlflow_ids: Sequence[str]) -> str:
    """Return the command that purges up to MOST_FORGOTTEN runs from MLflow's bin and imports them afresh.

    For a server, the user must replace DATABASE_OF_THE_SERVER by the URI of its database."""
    shown = shlex.quote(shown_uri(uri))
    database = "DATABASE_OF_THE_SERVER" if uri.startswith(("http", "databricks")) else shown
    ids = ",".join(mlflow_ids[:MOST_FORGOTTEN])
    return f"mlflow gc --tracking-uri {shown} --backend-store-uri {database} --run-ids {ids} && plat sync"
