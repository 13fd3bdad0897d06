"""Porter's stemmer of English words with the two rules that its author added later (`bli` -> `ble`, `logi` -> `log`).

A word is a sequence of groups of consonants and vowels. The *measure* of a stem is how often a vowel group is followed
by a consonant group in it: 0 for `tree`, 1 for `trees`, 2 for `private`. Rules replace a suffix if the measure of
what stands before it is large enough.
"""

from __future__ import annotations

from functools import lru_cache
from itertools import pairwise

_DERIVED = (  # step 2: suffix, replacement
    *(("ational", "ate"), ("tional", "tion"), ("enci", "ence"), ("anci", "ance"), ("izer", "ize"), ("bli", "ble")),
    *(("alli", "al"), ("entli", "ent"), ("eli", "e"), ("ousli", "ous"), ("ization", "ize"), ("ation", "ate")),
    *(("ator", "ate"), ("alism", "al"), ("iveness", "ive"), ("fulness", "ful"), ("ousness", "ous")),
    *(("aliti", "al"), ("iviti", "ive"), ("biliti", "ble"), ("logi", "log")),
)
_FORMED = (  # step 3
    *(("icate", "ic"), ("ative", ""), ("alize", "al"), ("iciti", "ic"), ("ical", "ic"), ("ful", ""), ("ness", "")),
)
_DROPPED = (  # step 4
    *("ement", "ance", "ence", "able", "ible", "ment", "ant", "ent", "ion", "ism", "ate", "iti", "ous", "ive"),
    *("ize", "al", "er", "ic", "ou"),
)


def _consonants(word: str) -> list[bool]:
    """Return for each character whether it is a consonant. A `y` is one at the beginning and after a vowel."""
    kinds: list[bool] = []
    for character in word:
        after_vowel = not kinds or not kinds[-1]
        kinds.append(after_vowel if character == "y" and kinds else character not in "aeiou")
    return kinds


@lru_cache(maxsize=65536)
def measure(stem_: str) -> int:
    """Return how often a vowel is followed by a consonant."""
    kinds = _consonants(stem_)
    return sum(not before and after for before, after in pairwise(kinds))


def _has_vowel(stem_: str) -> bool:
    return not all(_consonants(stem_))


def _doubled(word: str) -> bool:
    """Return True if the word ends in the same consonant twice."""
    return len(word) > 1 and word[-1] == word[-2] and _consonants(word)[-1]


def _short(word: str) -> bool:
    """Return True if the word ends in consonant, vowel, consonant, and the last one is not w, x or y."""
    return len(word) > 2 and _consonants(word)[-3:] == [True, False, True] and word[-1] not in "wxy"


def _replaced(word: str, rules: tuple[tuple[str, str], ...]) -> str:
    """Apply the rule of the first suffix that fits, if the measure before it is above 0."""
    for suffix, replacement in rules:
        if word.endswith(suffix):
            before = word[: -len(suffix)]
            return before + replacement if measure(before) > 0 else word
    return word


def _plural(word: str) -> str:
    if word.endswith("sses") or word.endswith("ies"):
        return word[:-2]
    return word[:-1] if word.endswith("s") and not word.endswith("ss") else word


def _past(word: str) -> str:
    if word.endswith("eed"):
        return word[:-1] if measure(word[:-3]) > 0 else word
    before = word[:-2] if word.endswith("ed") else word[:-3] if word.endswith("ing") else ""
    if not before or not _has_vowel(before):
        return word
    if before.endswith(("at", "bl", "iz")):
        return before + "e"
    if _doubled(before):
        return before if before[-1] in "lsz" else before[:-1]
    return before + "e" if measure(before) == 1 and _short(before) else before


def _ending_dropped(word: str) -> str:
    for suffix in _DROPPED:
        if word.endswith(suffix):
            before = word[: -len(suffix)]
            if suffix == "ion" and not before.endswith(("s", "t")):
                continue
            return before if measure(before) > 1 else word
    return word


def _tidied(word: str) -> str:
    if word.endswith("e"):
        before = word[:-1]
        if measure(before) > 1 or (measure(before) == 1 and not _short(before)):
            word = before
    return word[:-1] if word.endswith("ll") and measure(word) > 1 else word


def stem(word: str) -> str:
    """Return the stem of a word in small letters; words of up to two characters stay."""
    if len(word) < 3:
        return word
    word = _past(_plural(word))
    if word.endswith("y") and _has_vowel(word[:-1]):
        word = word[:-1] + "i"
    return _tidied(_ending_dropped(_replaced(_replaced(word, _DERIVED), _FORMED)))
