"""Find secrets whose value is on a later line than their name: `password = (`, then the value on the next line.

After a line that names a secret and ends before its value, the literals up to the closing bracket are values; so are
all lines of a block of text (triple quotes, a heredoc, a block of YAML). In doubt a line counts as a secret.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

MOST_LINES = 40  # lines searched in a block of text
MOST_IN_BRACKETS = 8  # lines searched in brackets
LONGEST = 300  # characters at the end of a line that are searched for a name
_NAME = (
    r"(?:passw(?:or)?d|passphrase|passwd|pwd|secret|credential|bearer|(?<![a-z])token(?!s|i)|auth(?:orization)?"
    r"|(?:api|access|private|secret|auth|signing|encryption|account|master)[ _-]?key)s?(?:[_-]?\w{0,12})"
)
_ANNOTATION = r"(?:\s*:\s*[\w.\[\]| ]+(?==))?"
_ASSIGNS = r"\s*(?:=>|:=|->|[:=,])?"
_CALL = r"(?:\s*(?:await\s+|new\s+)?[\w.]+(?=[(\[{]))?"
_BEGINS = r"\s*(?P<opener>(?:[rbfu]{0,2}(?:\"{3}|'{3}|`)|[({\[]+|[|>][+-]?\d?|\\|\$\(.*<<-?\s*\S+|<<-?\s*\S+)?)"
_COMMENT = r"\s*(?:(?:#|//|--)\s.*)?"
_OPENS = re.compile(rf"{_NAME}[\"'\])]*{_ANNOTATION}{_ASSIGNS}{_CALL}{_BEGINS}{_COMMENT}$", re.IGNORECASE)
_SHORT = re.compile(r"^\W*(?:[\w-]+\W+)?[\w-]+\W*$")  # at most two words: a key, an option, a name in a list
_LITERAL = re.compile(r"\"[^\"]{3,}\"|'[^']{3,}'|`[^`]{3,}`")
_BARE = re.compile(r"^\s*(?:-\s+|\w*(?:value|default|data)\w*\s*[:=]\s*)?[^\s\"'(){}\[\]<>,;:=]{4,}[\\,;]?\s*$")
_ASSIGNED = re.compile(rf"{_NAME}[\"']?\s*[:=]", re.IGNORECASE)
_PIECE = re.compile(r"[({\[]\s*[rbfu]{0,2}([\"'])[^\"']+\1\s*[+\\.]?\s*$", re.IGNORECASE)  # `password = ("hunt"`


def value_lines(lines: Sequence[str]) -> set[int]:
    """Return the indices of the lines of a diff that may hold the value of a secret named on an earlier line."""
    hidden: set[int] = set()
    for index, line in enumerate(lines):
        text = _content(line)
        if text is None or text.lstrip().startswith("</"):
            continue
        end = text[-LONGEST:]
        if opens := _OPENS.search(end):
            hidden |= _values(lines, index, opens["opener"], _SHORT.match(end) is not None)
        elif _PIECE.search(end) and _ASSIGNED.search(end):
            hidden |= {index} | _in_brackets(lines, index)
    return hidden


def _content(line: str) -> str | None:
    """Return a line of a diff without its mark (+, - or space); None for a header."""
    if line.startswith(("@@", "diff ", "index ", "+++", "---")):
        return None
    return line[1:].rstrip("\r\n") if line[:1] in "+- " else line.rstrip("\r\n")


def _values(lines: Sequence[str], index: int, opener: str, is_short: bool) -> set[int]:
    if opener[:1] in ("|", ">"):
        return _block(lines, index, None) or _next(lines, index)
    if quotes := re.search(r"[\"']{3}$|`$", opener):
        return _block(lines, index, quotes[0])
    if "<<" in opener:
        return _block(lines, index, opener.rpartition("<<")[2].strip("-\"' "))
    if opener[:1] in ("(", "{", "["):
        return _in_brackets(lines, index)
    ends_open = (_content(lines[index]) or "").rstrip()[-1:] in "=:,\\>"
    return _next(lines, index) if is_short or ends_open else set()


def _block(lines: Sequence[str], index: int, end: str | None) -> set[int]:
    """Return the lines up to the one with `end`; if `end` is None, those indented deeper than the first line."""
    indent, hidden = _indent(_content(lines[index]) or ""), set()
    for number in range(index + 1, min(len(lines), index + MOST_LINES)):
        text = _content(lines[number])
        if text is None or (end is None and text.strip() and _indent(text) <= indent):
            break
        hidden.add(number)
        if end is not None and end in text:
            break
    return hidden


def _in_brackets(lines: Sequence[str], index: int) -> set[int]:
    """Return the lines with a literal or a bare word, up to the line with the closing bracket."""
    hidden = set()
    for number in range(index + 1, min(len(lines), index + MOST_IN_BRACKETS)):
        text = _content(lines[number])
        if text is None or text.strip()[:1] in (")", "]", "}"):
            break
        if _LITERAL.search(text) or _BARE.match(text):
            hidden.add(number)
        if text.rstrip().endswith((")", ");", "]", "}")):
            break
    return hidden


def _next(lines: Sequence[str], index: int) -> set[int]:
    """Return the next line with a value, and its continuation lines with values."""
    hidden: set[int] = set()
    for number in range(index + 1, min(len(lines), index + MOST_IN_BRACKETS)):
        text = _content(lines[number])
        if text is None:
            break
        if not text.strip() or text.strip() in ("(", "[", "{", "\\"):
            continue
        if not (_LITERAL.search(text) or _BARE.match(text)):
            break
        hidden.add(number)
        if not text.rstrip().endswith(("+", "\\", ".")):
            break
    return hidden


def _indent(text: str) -> int:
    return len(text) - len(text.lstrip())
