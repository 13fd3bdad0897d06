"""The standard streams, made safe to write to: closed ones, and ones whose encoding lacks the characters we use."""

from __future__ import annotations

import codecs
import os
import sys

PLAIN = {
    **dict.fromkeys("−–—─―", "-"),  # a minus must stay a minus: it is the sign of an interval's end
    **dict.fromkeys("│┃", "|"),
    **dict.fromkeys("·●○◐◇▸▶•", "*"),
    **dict.fromkeys("“”", '"'),
    **dict.fromkeys("‘’", "'"),
    **dict.fromkeys("×✗", "x"),
    "÷": "/",
    "…": ".",
    "±": "+-",
    "→": "->",
    "≤": "<=",
    "≥": ">=",
    "Δ": "D",
}


def prepare() -> None:
    """Give every standard stream somewhere to go, and plain spellings where its encoding knows no other."""
    _open_missing()
    codecs.register_error("plat.plain", _plain)
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="plat.plain")


def _plain(error: UnicodeError) -> tuple[str, int]:
    """The nearest plain spelling of what cannot be encoded, "?" without one; mostly as wide, so that columns hold."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    return "".join(PLAIN.get(letter, "?") for letter in error.object[error.start : error.end]), error.end


def _open_missing() -> None:
    """Open closed standard descriptors on /dev/null: the next file opened would become the place we print to."""
    while (descriptor := os.open(os.devnull, os.O_RDWR)) <= 2:
        os.set_inheritable(descriptor, True)
    os.close(descriptor)
    for number, name in ((1, "stdout"), (2, "stderr")):
        if getattr(sys, name) is None:
            setattr(sys, name, os.fdopen(number, "w", encoding="utf-8", closefd=False))


def tell(text: str) -> None:
    """A line on stderr; nobody is told when the terminal is gone."""
    try:
        print(text, file=sys.stderr)
    except OSError:
        pass
