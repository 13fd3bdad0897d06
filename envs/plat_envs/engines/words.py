"""Text to index terms, as Lucene's English analysis makes them.

Words are those of Unicode's annex 29. Of each, a possessive `'s` is cut, capitals become small, 33 stop words are
left out, and the rest is stemmed. Each pictograph is a separate word.
"""

from __future__ import annotations

from functools import lru_cache
from itertools import pairwise

import regex

STOP_WORDS = frozenset(
    (
        "a an and are as at be but by for if in into is it no not of on or such that the their then there these they "
        "this to was will with"
    ).split()
)
LONGEST = 255  # longer words are cut into pieces of this length [characters]

_BOUNDARY = regex.compile(r"(?w)\b")
# The pictographs of Unicode 14, as in the Lucene that ranked the published index. Later versions took away ★, ♬ and ☚.
_PICTOGRAPHS = "".join(
    "-".join(rf"\U{int(end, 16):08x}" for end in span.split("-"))
    for span in (
        "a9 ae 203c 2049 2122 2139 2194-2199 21a9-21aa 231a-231b 2328 2388 23cf 23e9-23f3 23f8-23fa 24c2 25aa-25ab "
        "25b6 25c0 25fb-25fe 2600-2605 2607-2612 2614-2685 2690-2705 2708-2712 2714 2716 271d 2721 2728 2733-2734 "
        "2744 2747 274c 274e 2753-2755 2757 2763-2767 2795-2797 27a1 27b0 27bf 2934-2935 2b05-2b07 2b1b-2b1c 2b50 "
        "2b55 3030 303d 3297 3299 1f000-1f0ff 1f10d-1f10f 1f12f 1f16c-1f171 1f17e-1f17f 1f18e 1f191-1f19a "
        "1f1ad-1f1e5 1f201-1f20f 1f21a 1f22f 1f232-1f23a 1f23c-1f23f 1f249-1f3fa 1f3fb-1f3ff 1f400-1f53d "
        "1f546-1f64f 1f680-1f6ff 1f774-1f77f 1f7d5-1f7ff 1f80c-1f80f 1f848-1f84f 1f85a-1f85f 1f888-1f88f "
        "1f8ae-1f8ff 1f90c-1f93a 1f93c-1f945 1f947-1faff 1fc00-1fffd"
    ).split()
)
# A piece between two boundaries is a word if it has one of these; others are white space and punctuation.
_WORD = regex.compile(
    r"[\p{WB=ALetter}\p{WB=Hebrew_Letter}\p{WB=Numeric}\p{WB=Katakana}\p{WB=Regional_Indicator}\p{Script=Han}"
    r"\p{Script=Hiragana}\p{LB=Complex_Context}" + _PICTOGRAPHS + "]"
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


# Porter's stemmer of English words with the two rules that its author added later (`bli` -> `ble`, `logi` -> `log`).
#
# A word is a sequence of groups of consonants and vowels. The *measure* of a stem is how often a vowel group is
# followed by a consonant group in it: 0 for `tree`, 1 for `trees`, 2 for `private`. Rules replace a suffix if the
# measure of what stands before it is large enough.

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
