"""Text to index terms, as Lucene's English analysis makes them.

Words are those of Unicode's annex 29. Of each, a possessive `'s` is cut, capitals become small, 33 stop words are
left out, and the rest is stemmed. A pictograph is a word of its own.
"""

from __future__ import annotations

from functools import lru_cache

import regex

from plat_envs.engines.porter import stem

STOP_WORDS = frozenset(
    (
        "a an and are as at be but by for if in into is it no not of on or such that the their then there these they "
        "this to was will with"
    ).split()
)
LONGEST = 255  # longer words are cut into pieces of this length [characters]

_BOUNDARY = regex.compile(r"(?w)\b")
# Signs that were pictographs up to Unicode 15, as in the Lucene that ranked the published index: ★, ♬, ☚.
_ONCE_PICTOGRAPHS = (
    r"\u2388\u2605\u2607-\u2612\u2616-\u2685\u2690-\u2705\u2708-\u2712\u2765-\u2767\U0001F000-\U0001F0FF"
    r"\U0001F10D-\U0001F10F\U0001F12F\U0001F16C-\U0001F171\U0001F1AD-\U0001F1AE\U0001F322-\U0001F3FA"
    r"\U0001F546-\U0001F64F\U0001F680-\U0001F6FF\U0001F774-\U0001F77F\U0001F7D5-\U0001F7FF"
)
# A piece between two boundaries is a word if it has one of these; others are white space and punctuation.
_WORD = regex.compile(
    r"[\p{WB=ALetter}\p{WB=Hebrew_Letter}\p{WB=Numeric}\p{WB=Katakana}\p{WB=Regional_Indicator}\p{Script=Han}"
    r"\p{Script=Hiragana}\p{LB=Complex_Context}\p{Extended_Pictographic}" + _ONCE_PICTOGRAPHS + "]"
)
_APOSTROPHES = ("'", "\u2019", "\uff07")


def words(text: str) -> list[str]:
    """Return the words of a text in order, as they stand there."""
    found = [piece for piece in _BOUNDARY.split(text) if _WORD.search(piece)]
    return [word[first : first + LONGEST] for word in found for first in range(0, len(word), LONGEST)]


def terms(text: str) -> list[str]:
    """Return the index terms of a text in order; a repeated one as often as it occurs."""
    return [term for word in words(text) if (term := _term(word))]


@lru_cache(maxsize=65536)
def _term(word: str) -> str:
    """Return the term of a word, or "" for a stop word."""
    if len(word) > 1 and word[-1] in "sS" and word[-2] in _APOSTROPHES:
        word = word[:-2]
    small = word.lower() if word.isascii() else "".join(character.lower()[0] for character in word)
    return "" if small in STOP_WORDS else stem(small)
