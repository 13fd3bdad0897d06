"""Make text safe for terminals, XML and UTF-8 files.

Titles, labels and axis values come from files of others. A control character could command a terminal or break an SVG,
and a lone surrogate cannot be encoded; both become a visible replacement.
"""

from __future__ import annotations

import unicodedata

REPLACEMENT = "\ufffd"
_SPACES = {"\t", "\n", "\r"}
_DIRECTION = {"LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI"}  # they reorder the text around them


def printable(text: object) -> str:
    """Return `str(text)` with `REPLACEMENT` for each control or unassigned character, surrogate and mark of direction.

    Tabs and line breaks become spaces.
    """
    raw = str(text)
    if raw.isascii() and raw.isprintable():
        return raw
    return "".join(map(_shown, raw))


def _shown(character: str) -> str:
    if character in _SPACES:
        return " "
    hidden = unicodedata.category(character) in ("Cc", "Cs", "Cn") or character in "\u2028\u2029"
    return REPLACEMENT if hidden or unicodedata.bidirectional(character) in _DIRECTION else character


def shortened(text: str, most: int) -> str:
    """Return the text; if longer than `most` characters, shortened to `most` with an ellipsis in the middle."""
    if len(text) <= most:
        return text
    head = (most - 1 + 1) // 2
    return text[:head] + "…" + text[len(text) - (most - 1 - head) :]
