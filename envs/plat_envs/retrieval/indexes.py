"""Open or build the index that fits an encoder: one of words, or one of vectors."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path

from plat_envs.environment_errors import BadEnvironment
from plat_envs.retrieval.corpus import BM25, Corpus, Finder, Source
from plat_envs.retrieval.file_hash import file_hash, written

SUFFIX = ".corpus.json"  # of the file beside an index that says which corpus it was built from


def open_finder(source: Source, corpus: Corpus) -> Finder:
    """Open the index. Raises BadEnvironment if it is missing or damaged, or fits the corpus or the encoder not."""
    _refuse_one_file(source)
    if not source.index.is_file():
        raise source.misfit("there is no index")
    finder: Finder
    if source.encoder == BM25:
        from plat_envs.retrieval.word_index import WordIndex

        finder = WordIndex(source, len(corpus))
    else:
        from plat_envs.retrieval.vector_index import VectorIndex

        finder = VectorIndex(source, len(corpus))
    if _built_from(source.index) not in ("", corpus.content_hash):
        raise source.misfit(f"the index was built from another corpus than {source.corpus}, with as many pages")
    return finder


def build_index(source: Source, corpus: Corpus, kind: str = "flat") -> None:
    """Write the index of a corpus. `kind`: flat or hnsw64, with an encoder. Raises BadEnvironment if it cannot."""
    _refuse_one_file(source)
    if source.encoder == BM25:
        from plat_envs.retrieval import word_index

        word_index.build(source, corpus)
    else:
        from plat_envs.retrieval import vector_index

        vector_index.build(source, corpus, kind)
    content = {"index": file_hash(source.index), "corpus": corpus.content_hash}
    with contextlib.suppress(BadEnvironment), written(_beside(source.index)) as file:  # the index is good without it
        file.write(json.dumps(content).encode())


def _refuse_one_file(source: Source) -> None:
    """Raise BadEnvironment if the index is the corpus: building it would overwrite the pages."""
    if source.index.exists() and source.index.samefile(source.corpus):
        raise BadEnvironment(
            "the index is the same file as the corpus", where=str(source.index), fix="name another file for the index"
        )


def _beside(index: Path) -> Path:
    return index.with_name(index.name + SUFFIX)


def _built_from(index: Path) -> str:
    """Return the SHA-256 of the corpus that an index was built from; "" if nobody noted it for this content."""
    with contextlib.suppress(OSError, ValueError, KeyError, TypeError, RecursionError):
        noted = json.loads(_beside(index).read_text())
        if noted["index"] == file_hash(index):
            return str(noted["corpus"])
    return ""
