"""Store URIs: the SQLite file that one names, and how it may be shown, without what gives access."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from pathlib import Path

from plat.errors import StoreError
from plat.suggest import mend

KINDS = ("sqlite", "postgresql", "mysql", "mssql", "http", "https", "databricks", "file")
_USER_INFO = re.compile(r"(?P<scheme>\b[a-zA-Z][\w+.-]*://)(?P<userinfo>[^/\s?#]*)@")
_PARAMETER = re.compile(r"(?i)(?P<name>[?&;](?:\w*passw(?:or)?d|pwd|\w*token|\w*secret|\w*key|sig)=)[^&#;\s]+")
MOST_FORGOTTEN = 50  # runs named in one command: a longer one is hard to paste


def check_kind(uri: str) -> None:
    """StoreError for an address of a kind that MLflow has no store for, such as a misspelt one."""
    kind, colon, _ = uri.partition("://")
    name = kind.partition("+")[0].lower()
    if colon and name not in KINDS:
        raise StoreError(f"unknown kind of store {name!r}", where=mask_passwords(uri), mend=mend(name, KINDS, "one of"))


def mask_passwords(text: str) -> str:
    """The text with the passwords and tokens of every URI in it replaced by `***`.

    `postgresql://me:secret@host/db` becomes `postgresql://me:***@host/db`. Before the host of a web address a single
    word is a token, so `https://TOKEN@host` becomes `https://***@host`; before a database's it is the user and stays.
    Parameters named like a password, token or key are masked, too.
    """
    return _PARAMETER.sub(r"\g<name>***", _USER_INFO.sub(_masked, text))


def shown_uri(uri: str) -> str:
    """The URI of a store as it may be printed. A SQLite file has no password, and its path is left alone."""
    return uri if uri.startswith("sqlite") else mask_passwords(uri)


def _masked(match: re.Match[str]) -> str:
    user, colon, _ = match["userinfo"].partition(":")
    if not colon:
        user, colon = ("", "") if match["scheme"].startswith(("http", "databricks")) else (user, None)
    secret = "" if colon is None else f"{colon}***"
    return f"{match['scheme']}{user}{secret}@"


def sqlite_path(uri: str) -> Path | None:
    """The database file of a `sqlite:///` URI (made absolute), None for any other kind of store."""
    match = re.match(r"sqlite(?:\+\w+)?://(?P<rest>.*)$", uri)
    if not match:
        return None
    path = match["rest"].removeprefix("/").partition("?")[0]
    if not path or path == ":memory:":
        raise StoreError("an in-memory SQLite store would forget everything", where=uri, mend="name a file")
    return Path(path).absolute()


def artifact_root(uri: str) -> str | None:
    """Where a new MLflow experiment keeps its artifacts: beside a SQLite file; elsewhere the store decides (None)."""
    path = sqlite_path(uri)
    return str(path.parent / "mlartifacts") if path else None


def gc_command(uri: str, mlflow_ids: Sequence[str]) -> str:
    """The commands by which MLflow forgets runs that are in its bin, the first MOST_FORGOTTEN, and they are imported
    afresh; of a server, whoever types it puts in the database that it keeps."""
    shown = shlex.quote(shown_uri(uri))
    database = "DATABASE_OF_THE_SERVER" if uri.startswith(("http", "databricks")) else shown
    ids = ",".join(mlflow_ids[:MOST_FORGOTTEN])
    return f"mlflow gc --tracking-uri {shown} --backend-store-uri {database} --run-ids {ids} && plat sync"
