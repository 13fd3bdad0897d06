"""Check the characters and numbers of experiment files and overrides, and make text safe to display.

Titles, names and values are printed on terminals, drawn into figures and written into a database. Control characters,
marks that reverse the writing direction, and lone surrogates are refused. Whole numbers must fit into a signed 64-bit
integer, as the store and the tables require.
"""

from __future__ import annotations

import re
import textwrap
import unicodedata
from collections.abc import Sequence
from typing import Any

LARGEST = 2**63 - 1
_FORBIDDEN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")

_NUMBER = re.compile(r"\d+(?:\.\d+)?(?:e[-+]?\d+)?")
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")
_OTHER_SEQUENCE = re.compile(r"\x1b\[[0-?]*[ -/]*[@-ln-~]")  # moves the cursor, clears a line
_OVERWRITTEN = re.compile(r"[^\n]*\r(?=[^\r\n])")  # earlier states of a progress bar in the same line
# What services call their keys, and options and variables named like one.
_SECRET = re.compile(
    r"\b(hf_|sk-|ghp_|gho_|github_pat_|glpat-|xox[abp]-|AKIA|AIza)[\w-]{12,}"
    r"|(?i:(?<=token)|(?<=secret)|(?<=password)|(?<=passwd)|(?<=api.key)|(?<=apikey))([= ]|\": \")[^\s\"'{}]{8,}"
)


def masked(text: str) -> str:
    """Return the text with `***` in place of what looks like a key or a password, such as `--api-key 12345678`."""
    return _SECRET.sub(lambda match: f"{match[1] or match[2]}***", text)


def forbidden_character(text: str) -> str | None:
    """Return the first forbidden character of a text as `U+001B`, or None."""
    match = _FORBIDDEN.search(text)
    return f"U+{ord(match[0]):04X}" if match else None


def is_too_large(number: int) -> bool:
    """Return True if a whole number does not fit into a signed 64-bit integer."""
    return not -LARGEST - 1 <= number <= LARGEST


def escaped(text: str) -> str:
    r"""Return the text with every forbidden character spelled out, e.g. `\x1b`."""
    return _FORBIDDEN.sub(lambda match: match[0].encode("unicode_escape", "surrogatepass").decode(), text)


def one_line(text: str) -> str:
    """Return `escaped(text)` with line breaks and tabs spelled out too, for a name in a table."""
    return escaped(text).replace("\n", "\\n").replace("\t", "\\t")


def columns_of(text: str) -> int:
    """Return the number of terminal columns that a text takes."""
    if text.isascii():
        return len(text)
    return sum(map(_columns, text))


def _columns(character: str) -> int:
    """Return 2 for wide East Asian characters and emojis, 0 for combining and format characters, else 1."""
    if unicodedata.category(character) in ("Mn", "Me", "Cf"):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def as_lines(output: str, *, colours: bool = False) -> str:
    """Return, as one text, the lines that a program's output leaves on a terminal; without `colours`, plain."""
    lines = _OVERWRITTEN.sub("", _OTHER_SEQUENCE.sub("", output)).replace("\r", "")
    return lines if colours else _COLOUR.sub("", lines)


def without_numbers(text: str) -> str:
    """Return a text with `#` for each number, so that reasons of one kind are equal."""
    return _NUMBER.sub("#", text)


def wrapped(name: str, room: int) -> list[str]:
    """Split a name into lines of at most `room` terminal columns, after hyphens where possible. Drops no character."""
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
    """Return the number of leading characters of a text that fit into `room` columns, at least 1."""
    if text.isascii():
        return room
    used = 0
    for index, character in enumerate(text):
        used += columns_of(character)
        if used > room:
            return max(1, index)
    return len(text)


def writable(text: str) -> str:
    """Return the text with lone surrogates spelled out, so that it can be encoded as UTF-8."""
    return text if text.isascii() else text.encode(errors="backslashreplace").decode()


# Lay out rows of text on a terminal. No cell is ever cut: a row that is too wide takes several lines.
#
# If all rows fit, each takes one line under a header. Otherwise a last column of text is wrapped, if there is room for
# it. Without that room, the first cell of each row (a run's name) has its own line, and the other cells follow with
# their column names.

SEPARATOR = " · "
LEAST = 24  # columns that a wrapped last column needs


def row_blocks(
    header: Sequence[str], rows: Sequence[Sequence[Any]], room: int | None, indent: str = ""
) -> tuple[list[str], list[list[str]]]:
    """Return (header, lines of each row) of a table: one line a row if all lines fit, else several.

    If all lines fit, or fit with a wrapped last column, the header is one line. Otherwise it is [], and every row takes
    several lines: its first cell without a column name, then `name value · name value`, wrapped. Empty cells are then
    left out.

    room    terminal columns that a line should take; None for no limit. A longer word stays whole
    indent  begins every line, and counts as part of it
    """
    lines = _lines(header, rows, indent)
    if room is not None and max(map(columns_of, lines)) > room:
        if wrapped := _wrapped(header, rows, room, indent):
            return wrapped
        return [], [_stacked(header, row, room, indent) for row in rows]
    return lines[:1], [[line] for line in lines[1:]]


def _lines(header: Sequence[str], rows: Sequence[Sequence[Any]], indent: str) -> list[str]:
    texts = [list(header), *([_text(cell) for cell in row] for row in rows)]
    widths = [max(columns_of(row[index]) for row in texts) for index in range(len(header))]
    numeric = [all(isinstance(row[index], int | float | None) for row in rows) for index in range(len(header))]
    lines = []
    for row in texts:
        cells = []
        for text, size, is_number in zip(row, widths, numeric, strict=True):
            blanks = " " * (size - columns_of(text))
            cells.append(blanks + text if is_number else text + blanks)
        lines.append((indent + "  ".join(cells)).rstrip())
    return lines


def _wrapped(
    header: Sequence[str], rows: Sequence[Sequence[Any]], room: int, indent: str
) -> tuple[list[str], list[list[str]]] | None:
    """Return header and lines with the last column wrapped; None if it is not text with blanks, or has no room."""
    if len(header) < 2 or not any(" " in _text(row[-1]) for row in rows):
        return None
    first = _lines([*header[:-1], ""], [[*row[:-1], ""] for row in rows], indent)
    width = max(map(columns_of, first)) + 2
    if width + LEAST > room:
        return None
    blocks = []
    for line, text in zip(first, [header[-1], *(_text(row[-1]) for row in rows)], strict=True):
        parts = textwrap.wrap(text, room - width, break_long_words=False, break_on_hyphens=False) or [""]
        start = line + " " * (width - columns_of(line))
        blocks.append([(start + parts[0]).rstrip(), *(" " * width + part for part in parts[1:])])
    return blocks[0], blocks[1:]


def _stacked(header: Sequence[str], row: Sequence[Any], room: int, indent: str) -> list[str]:
    """Return one row as several lines: its first cell, then the others, wrapped between cells where possible."""
    facts = [f"{name} {_text(cell)}" for name, cell in zip(header[1:], row[1:], strict=True) if _text(cell)]
    inner = indent + "  "
    lines, line = [indent + _text(row[0])], ""
    for fact in facts:
        if line and columns_of(inner + line + SEPARATOR + fact) > room:
            lines.append(inner + line)
            line = fact
        else:
            line = line + SEPARATOR + fact if line else fact
    lines += [inner + line] if line else []
    return [part for line in lines for part in broken(line, room)]


def broken(line: str, room: int) -> list[str]:
    """Break a line at blanks into lines of `room` columns, further ones indented; a longer word stays whole."""
    if columns_of(line) <= room:
        return [line]
    indent = " " * (len(line) - len(line.lstrip()) + 2)
    return textwrap.wrap(line, max(20, room), subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)


def _text(cell: Any) -> str:
    return "" if cell is None else str(cell)
