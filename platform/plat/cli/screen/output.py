"""Make the standard streams safe to write to.

Closed streams are opened on /dev/null. Characters that a stream cannot encode get plain spellings. Control characters
in printed text (a title, a file name, a foreign store) are escaped, so that they cannot steer the terminal; only
colours pass to a terminal. The live board of a sweep writes to the `unfiltered` stream.
"""

from __future__ import annotations

import codecs
import os
import re
import sys
from typing import Any, TextIO

from plat.characters import escaped

_COLOUR = re.compile(r"(\x1b\[[0-9;]*m)")
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


def make_streams_safe() -> None:
    """Open closed streams, and replace `sys.stdout` and `sys.stderr` by streams that print only safe characters."""
    _open_missing()
    codecs.register_error("plat.plain", _plain)
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if isinstance(stream, SafeStream):
            continue
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="plat.plain")
        setattr(sys, name, SafeStream(stream))


class SafeStream:
    """A text stream that escapes control characters and delegates everything else to the wrapped stream."""

    def __init__(self, stream: TextIO) -> None:
        self.unfiltered = stream
        self._is_terminal = stream.isatty()

    def write(self, text: str) -> int:
        return self.unfiltered.write(without_controls(text, colours=self._is_terminal))

    def writelines(self, lines: Any) -> None:
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.unfiltered, name)


def without_controls(text: str, *, colours: bool = False) -> str:
    """Return the text as `plat.characters.escaped` does; with `colours`, colour sequences stay.

    Line feeds and tabs stay. Carriage returns are escaped, also in a line end of Windows.
    """
    if text == "\n" or text.isprintable():
        return text
    if not colours:
        return escaped(text)
    return "".join(part if _COLOUR.fullmatch(part) else escaped(part) for part in _COLOUR.split(text))


def _plain(error: UnicodeError) -> tuple[str, int]:
    """Return the nearest plain spelling of unencodable characters, else "?"; mostly equally wide, for columns."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    return "".join(PLAIN.get(letter, "?") for letter in error.object[error.start : error.end]), error.end


def _open_missing() -> None:
    """Open closed standard descriptors on /dev/null: otherwise the next opened file would receive what plat prints."""
    while (descriptor := os.open(os.devnull, os.O_RDWR)) <= 2:
        os.set_inheritable(descriptor, True)
    os.close(descriptor)
    for number, name in ((1, "stdout"), (2, "stderr")):
        if getattr(sys, name) is None:
            setattr(sys, name, os.fdopen(number, "w", encoding="utf-8", closefd=False))


def tell(text: str) -> None:
    """Print a line on stderr; drop it when the terminal is gone."""
    try:
        print(text, file=sys.stderr)
    except OSError:
        pass
