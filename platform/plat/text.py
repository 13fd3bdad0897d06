"""Which characters and numbers may stand in an experiment file or an override.

Titles, names and values are printed on terminals, drawn into figures and written into a database. Control characters
can make a terminal do things, marks that reverse the writing direction make a name look like another one, and lone
surrogates are no text at all. Whole numbers have to fit into the 64 bits that the store and the tables give them.
Names that are shown in a narrow column are broken here, and never cut. The output of programs is made readable here.
"""

from __future__ import annotations

import re
import unicodedata

LARGEST = 2**63 - 1
_FORBIDDEN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")

_COLOUR = re.compile(r"\x1b\[[0-9;]*m")
_OTHER_SEQUENCE = re.compile(r"\x1b\[[0-?]*[ -/]*[@-ln-~]")  # moves the cursor, clears a line
_OVERWRITTEN = re.compile(r"[^\n]*\r(?=[^\r\n])")  # what a progress bar has drawn earlier in the same line


def forbidden_character(text: str) -> str | None:
    """The first character that may not stand in a text, as `U+001B`; None when there is none."""
    match = _FORBIDDEN.search(text)
    return f"U+{ord(match[0]):04X}" if match else None


def is_too_large(number: int) -> bool:
    """Whether a whole number does not fit into 64 bits with a sign."""
    return not -LARGEST - 1 <= number <= LARGEST


def escaped(text: str) -> str:
    r"""The text with every forbidden character spelled out, e.g. `\x1b`."""
    return _FORBIDDEN.sub(lambda match: match[0].encode("unicode_escape", "surrogatepass").decode(), text)


def one_line(text: str) -> str:
    r"""As `escaped`, with line breaks and tabs spelled out, too: a name that stands in a table."""
    return escaped(text).replace("\n", "\\n").replace("\t", "\\t")


def columns_of(text: str) -> int:
    """How many columns of a terminal a text takes."""
    if text.isascii():
        return len(text)
    return sum(map(_columns, text))


def _columns(character: str) -> int:
    """2 for the wide characters of East Asia and emojis, 0 for marks that stand on the one before."""
    if unicodedata.category(character) in ("Mn", "Me", "Cf"):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def as_lines(output: str, *, colours: bool = False) -> str:
    """What a program has written for a terminal, as the lines that stay there; with its colours where asked for."""
    lines = _OVERWRITTEN.sub("", _OTHER_SEQUENCE.sub("", output)).replace("\r", "")
    return lines if colours else _COLOUR.sub("", lines)


def wrapped(name: str, room: int) -> list[str]:
    """A name in lines of at most `room` columns, broken behind hyphens where that is possible."""
    lines, line = [], ""
    for part in name.replace("-", "-\0").split("\0"):
        while columns_of(line + part) > room and line:
            lines.append(line)
            line = ""
        while columns_of(part) > room:
            fitting = _fitting(part, room)
            lines.append(part[:fitting])
            part = part[fitting:]
        line += part
    return [*lines, line] if line else lines


def _fitting(text: str, room: int) -> int:
    """How many characters of a text fit into so many columns; one at least."""
    if text.isascii():
        return room
    used = 0
    for index, character in enumerate(text):
        used += columns_of(character)
        if used > room:
            return max(1, index)
    return len(text)


def writable(text: str) -> str:
    """The text with lone surrogates spelled out: nothing else can fail to be written as UTF-8."""
    return text if text.isascii() else text.encode(errors="backslashreplace").decode()
