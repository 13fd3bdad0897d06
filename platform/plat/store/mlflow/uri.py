"""Store URIs as they may be shown: without what gives access."""

from __future__ import annotations

import re

_USER_INFO = re.compile(r"(?P<scheme>\b[a-zA-Z][\w+.-]*://)(?P<userinfo>[^/\s?#]*)@")
_PARAMETER = re.compile(r"(?i)(?P<name>[?&;](?:\w*passw(?:or)?d|pwd|\w*token|\w*secret|\w*key|sig)=)[^&#;\s]+")


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
