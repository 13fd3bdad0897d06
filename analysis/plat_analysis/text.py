"""Text that may be shown anywhere: on a terminal, in XML, in a file of UTF-8.

Titles, labels and axis values come from files that others wrote. A control character in them could command a terminal
or break an SVG, and a lone surrogate cannot be encoded; both are shown as a visible replacement instead.
"""

from __future__ import annotations

import unicodedata

REPLACEMENT = "\ufffd"
_SPACES = {"\t", "\n", "\r"}
_DIRECTION = {"LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI"}  # they reorder what stands around them


def printable(text: object) -> str:
    """The text without control characters, surrogates and marks that change the direction of writing."""
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
    """At most that many characters, an ellipsis in the middle of a longer text (its ends often tell it apart)."""
    if len(text) <= most:
        return text
    head = (most - 1 + 1) // 2
    return text[:head] + "…" + text[len(text) - (most - 1 - head) :]
