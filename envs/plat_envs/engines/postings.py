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
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from typing import IO, Any
from zipfile import BadZipFile

import numpy as np
from numpy.typing import NDArray

from plat_envs.engines.words import terms
from plat_envs.environment_errors import BadEnvironment

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
