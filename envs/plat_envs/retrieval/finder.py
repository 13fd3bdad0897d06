"""What finds pages: the files of a server, the protocol of an index, and the hashes that decide the answers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Protocol

from plat_envs.environment_errors import BadEnvironment

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
