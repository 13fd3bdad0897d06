"""An index of documents in memory, ranked as Lucene ranks them by BM25, to the bit, without Java.

A document's length is rounded to one of 256 values, as Lucene stores it in a byte. Scores are computed in single
precision, without the factor k1 + 1. A term that is k times in the query counts k times. Documents with equal scores
are ordered by their ids as text.
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from hashlib import sha256
from itertools import pairwise
from pathlib import Path
from typing import IO, Any
from zipfile import BadZipFile

import numpy as np
import regex
from numpy.typing import NDArray

from plat_envs.environment_errors import BadEnvironment

# Text to index terms, as Lucene's English analysis makes them.
#
# Words are those of Unicode's annex 29. Of each, a possessive `'s` is cut, capitals become small, 33 stop words are
# left out, and the rest is stemmed. Each pictograph is a separate word.

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


K1, B = np.float32(0.9), np.float32(0.4)  # of Anserini
EXACT = 24  # lengths below are stored as they are
_BLOCK = 128  # documents in a block; the search finds the best of each block first
_ARRAYS = ("starts", "documents", "counts", "lengths")


def rounded_length(length: int) -> int:
    """Return the length as it is read back from Lucene's byte: exact up to 39, then with four significant bits."""
    above = length - EXACT
    shift = max(0, above.bit_length() - 4)
    return length if above < 0 else EXACT + (above >> shift << shift)


@dataclass(frozen=True, eq=False)
class Postings:
    """The index: documents sorted by id, and for each term the documents that have it, and how often.

    starts   where the entries of each term begin in `documents` and `counts`; one more number than terms
    lengths  of the documents, exact [terms]
    """

    ids: tuple[str, ...]
    vocabulary: tuple[str, ...]
    starts: NDArray[np.int64]
    documents: NDArray[np.int32]
    counts: NDArray[np.int32]
    lengths: NDArray[np.int32]

    @cached_property
    def _term_numbers(self) -> dict[str, int]:
        return {term: number for number, term in enumerate(self.vocabulary)}

    @cached_property
    def _inverse_norms(self) -> NDArray[np.float32]:
        """1 / (k1 (1 - b + b length / mean length)) of each document."""
        filled = max(1, int(np.count_nonzero(self.lengths)))
        mean = np.float32(int(self.lengths.sum(dtype=np.int64)) / filled)
        rounded = np.array([rounded_length(int(length)) for length in self.lengths], dtype=np.float32)
        one = np.float32(1)
        return one / (K1 * ((one - B) + B * rounded / max(mean, one)))

    @cached_property
    def _factors(self) -> NDArray[np.float32]:
        """1 + count x inverse norm of each entry."""
        return np.float32(1) + self.counts.astype(np.float32) * self._inverse_norms[self.documents]

    def _weight(self, number: int, times: int) -> np.float32:
        """Return the weight of a term that is `times` in the query."""
        documents, having = int(np.count_nonzero(self.lengths)), int(self.starts[number + 1] - self.starts[number])
        return np.float32(times) * np.float32(np.log(1 + (documents - having + 0.5) / (having + 0.5)))

    def search(self, text: str, count: int) -> list[tuple[str, float]]:
        """Return up to `count` documents (id, score) that have a term of the text, best first. Accepts any text."""
        total = np.zeros(len(self.ids))
        for term, times in Counter(terms(text)).items():
            number = self._term_numbers.get(term)
            if number is not None:
                entries = slice(self.starts[number], self.starts[number + 1])
                found, weight = self.documents[entries], self._weight(number, times)
                total[found] += weight - weight / self._factors[entries]
        scores = total.astype(np.float32)
        matching = np.flatnonzero(scores >= _bound(scores, count))
        matching = matching[scores[matching] > 0]
        if len(matching) > count > 0:
            least = np.partition(scores[matching], -count)[-count]
            matching = matching[scores[matching] >= least]
        best = matching[np.argsort(-scores[matching], kind="stable")][:count]
        return [(self.ids[document], float(scores[document])) for document in best]

    @cached_property
    def content_hash(self) -> str:
        """The SHA-256 of everything in the index. Equal documents give equal hashes in any order."""
        digest = sha256()
        for texts in (self.ids, self.vocabulary):
            digest.update("\n".join(texts).encode("utf-8", "surrogatepass") + b"\0")
        for name in _ARRAYS:
            digest.update(getattr(self, name).tobytes())
        return digest.hexdigest()

    def save(self, file: Path | IO[bytes]) -> None:
        """Write the index to a file (.npz)."""
        content: dict[str, Any] = {name: np.array("\n".join(getattr(self, name))) for name in ("ids", "vocabulary")}
        content |= {name: getattr(self, name) for name in _ARRAYS}
        np.savez(file, **content)


def _bound(scores: NDArray[np.float32], count: int) -> np.float32:
    """Return a score that at least `count` documents reach, quickly: the largest of `count` blocks have one each."""
    whole = len(scores) // _BLOCK
    if not 0 < count <= whole:
        return np.float32(0)
    largest = scores[: whole * _BLOCK].reshape(whole, _BLOCK).max(axis=1)
    least: np.float32 = np.partition(largest, -count)[-count]
    return least


def load(path: Path) -> Postings:
    """Return the index of a file that `save` has written. Raises BadEnvironment if it is damaged or none."""
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as content:
            ids, vocabulary = (tuple(str(content[name]).split("\n")) for name in ("ids", "vocabulary"))
            return Postings(ids, vocabulary, *(content[name] for name in _ARRAYS))
    except (OSError, ValueError, KeyError, TypeError, EOFError, BadZipFile) as error:
        raise BadEnvironment(
            f"the search index cannot be read: {error}", where=str(path), fix="remove this file; it is made again"
        ) from None


def build(documents: Iterable[tuple[str, str]]) -> Postings:
    """Return the index of documents (id, text). Ids must differ."""
    entries: dict[str, array[int]] = {}  # number of a document, count, and so on: eight bytes a pair
    lengths: list[int] = []
    ordered: Sequence[tuple[str, str]] = sorted(documents)
    for number, (_, text) in enumerate(ordered):
        found = terms(text)
        lengths.append(len(found))
        for term, count in Counter(found).items():
            entries.setdefault(term, array("i")).extend((number, count))
    vocabulary = tuple(sorted(entries))
    starts = np.cumsum([0, *(len(entries[term]) // 2 for term in vocabulary)], dtype=np.int64)
    pairs = np.frombuffer(b"".join(entries[term].tobytes() for term in vocabulary), dtype=np.int32).reshape(-1, 2)
    return Postings(
        tuple(document for document, _ in ordered),
        vocabulary,
        starts,
        np.ascontiguousarray(pairs[:, 0]),
        np.ascontiguousarray(pairs[:, 1]),
        np.array(lengths, dtype=np.int32),
    )
