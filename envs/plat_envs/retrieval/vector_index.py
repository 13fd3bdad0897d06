"""An index of vectors, searched by FAISS: flat (exact) or HNSW64. Its vectors stay in the file, mapped into memory."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from typing import Any

import numpy as np

from plat_envs.environment_errors import BadEnvironment
from plat_envs.retrieval.corpus import Corpus
from plat_envs.retrieval.encoder import PASSAGE, QUERY, Encoder
from plat_envs.retrieval.file_hash import written
from plat_envs.retrieval.finder import Found, Source

KINDS = {"flat": "Flat", "hnsw64": "HNSW64,Flat"}  # as the published indexes were made
DECIMALS = 5  # of a score: further ones depend on which queries are answered together
_BLOCK = 4096  # pages that are encoded and added together


class VectorIndex:
    """The index of a file and its encoder.

    Raises BadEnvironment if it is damaged, or fits the corpus or the encoder not.
    """

    kind = "dense"

    def __init__(self, source: Source, pages: int) -> None:
        faiss = _faiss()
        self._encoder = Encoder(source.encoder, source.device)
        try:
            self._index: Any = faiss.read_index(str(source.index), faiss.IO_FLAG_MMAP_IFC)
        except (RuntimeError, MemoryError) as error:
            reason = str(error).rsplit(": ", 1)[-1].strip()
            raise source.misfit(f"the index is no index of FAISS, or damaged: {reason}") from None
        if self._index.ntotal != pages:
            what = f"the index has {self._index.ntotal:,} pages, and the corpus {source.corpus} has {pages:,}"
            raise source.misfit(what)
        if self._index.d != self._encoder.dimension:
            what = f"the vectors of the index have {self._index.d} numbers, and those of the encoder"
            raise source.misfit(f"{what} {source.encoder} have {self._encoder.dimension}")
        if self._index.metric_type != faiss.METRIC_INNER_PRODUCT:
            raise source.misfit("the index ranks by distances, and E5 needs inner products")
        self.encoder_hash = self._encoder.content_hash

    def find(self, queries: Sequence[str], count: int) -> list[Found]:
        """Return up to `count` pages for each query. Pages with equal scores are in the order of their numbers."""
        scores, numbers = self._index.search(self._encoder.encode(queries, QUERY), count)
        rows = zip(numbers.tolist(), np.round(scores.astype(float), DECIMALS).tolist(), strict=True)
        found = [[(n, s) for n, s in zip(*row, strict=True) if n >= 0] for row in rows]  # -1: no further page
        return [sorted(pages, key=lambda page: (-page[1], page[0])) for pages in found]


def build(source: Source, corpus: Corpus, kind: str) -> None:
    """Write the index of a corpus: all vectors are in memory until then.

    Raises BadEnvironment for an unknown kind, without FAISS or an encoder, or if the file cannot be written.
    """
    if kind not in KINDS:
        raise BadEnvironment(f"kind is {kind!r}", fix=f"one of: {', '.join(KINDS)}")
    faiss = _faiss()
    encoder = Encoder(source.encoder, source.device)
    index = faiss.index_factory(encoder.dimension, KINDS[kind], faiss.METRIC_INNER_PRODUCT)
    with written(source.index) as file:  # before the work of hours, so that a wrong folder is noticed
        texts = corpus.texts()
        while block := list(islice(texts, _BLOCK)):
            index.add(encoder.encode(block, PASSAGE))
        faiss.write_index(index, file.name)


def _faiss() -> Any:
    try:
        import faiss
    except ImportError:
        raise BadEnvironment(
            "an index of vectors needs a package that is not installed: faiss-cpu",
            where="--encoder",
            fix="pip install 'plat[retrieval]', or --encoder bm25",
        ) from None
    return faiss
