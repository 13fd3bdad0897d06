"""Open or build the index that fits an encoder: one of words, or one of vectors."""

from __future__ import annotations

from plat_envs.retrieval.corpus import Corpus
from plat_envs.retrieval.finder import BM25, Finder, Source


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
