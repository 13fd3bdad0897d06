"""What finds pages: an index of a corpus, opened for a server."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Protocol

from plat_envs.environment_errors import BadEnvironment
from plat_envs.retrieval.corpus import Corpus

BM25 = "bm25"  # the encoder's name of an index of words
Found = list[tuple[int, float]]  # numbers of pages and their scores, best first


class Finder(Protocol):
    """`kind`: "dense" or "bm25"; `encoder_hash`: of the encoder's files, "" if there is none."""

    kind: str
    encoder_hash: str

    def find(self, queries: Sequence[str], count: int) -> list[Found]:
        """Return up to `count` pages for each query."""


@dataclass(frozen=True)
class Source:
    """The files that a server reads. `encoder`: a folder, or "bm25"."""

    corpus: Path
    index: Path
    encoder: str
    device: str = "cpu"

    @property
    def build_command(self) -> str:
        return f"plat retrieval build --corpus {self.corpus} --encoder {self.encoder} --out {self.index}"

    def misfit(self, what: str) -> BadEnvironment:
        """Return the error of an index that cannot be used with the corpus and the encoder."""
        return BadEnvironment(what, where=str(self.index), fix=self.build_command)


@dataclass(frozen=True)
class Hashes:
    """The SHA-256 of what decides the answers."""

    corpus: str
    index: str
    encoder: str

    @property
    def combined(self) -> str:
        """The hash of the three: `task.env.index` of a run."""
        return sha256("\n".join((self.corpus, self.index, self.encoder)).encode()).hexdigest()


def open_finder(source: Source, corpus: Corpus) -> Finder:
    """Open the index. Raises BadEnvironment if it is missing or damaged, or fits the corpus or the encoder not."""
    if not source.index.is_file():
        raise source.misfit("there is no index")
    if source.encoder == BM25:
        from plat_envs.retrieval.word_index import WordIndex

        return WordIndex(source, len(corpus))
    from plat_envs.retrieval.vector_index import VectorIndex

    return VectorIndex(source, len(corpus))


def build_index(source: Source, corpus: Corpus, kind: str = "flat") -> None:
    """Write the index of a corpus. `kind`: flat or hnsw64, with an encoder. Raises BadEnvironment if it cannot."""
    if source.encoder == BM25:
        from plat_envs.retrieval import word_index

        word_index.build(source, corpus)
    else:
        from plat_envs.retrieval import vector_index

        vector_index.build(source, corpus, kind)
