"""The similarity of two short texts, from 0 to 100: the token-set ratio of the libraries for fuzzy matching.

Words are compared as sets: what both texts have, against what both have together with the rest of either. Two texts
are as similar as the most similar pair of the three.
"""

from __future__ import annotations

import re
from functools import lru_cache

_NOT_A_WORD = re.compile(r"[\W_]+")
_ACCENTED = dict.fromkeys(range(128, 256))  # as in those libraries, which drop these letters and no others


def common_length(first: str, second: str) -> int:
    """Return the length of the longest common subsequence of two texts."""
    places: dict[str, int] = {}
    for position, character in enumerate(first):
        places[character] = places.get(character, 0) | 1 << position
    everywhere = (1 << len(first)) - 1
    row = everywhere  # a zero for each character of `first` at which the subsequence grows
    for character in second:
        matches = row & places.get(character, 0)
        row = (row + matches | row - matches) & everywhere
    return len(first) - row.bit_count()


def ratio(first: str, second: str) -> int:
    """Return twice the common length over the length of both, in whole percent; 0 if one text is empty."""
    if not first or not second:
        return 0
    return round(200 * common_length(first, second) / (len(first) + len(second)))


@lru_cache(maxsize=65536)
def similarity(first: str, second: str) -> int:
    """Return the token-set ratio. Only letters and digits count, and case does not."""
    words, others = (set(_NOT_A_WORD.sub(" ", text.translate(_ACCENTED)).lower().split()) for text in (first, second))
    if not words or not others:
        return 0
    both = " ".join(sorted(words & others))
    one = " ".join([both, *sorted(words - others)]).strip()
    other = " ".join([both, *sorted(others - words)]).strip()
    return max(ratio(both, one), ratio(both, other), ratio(one, other))
