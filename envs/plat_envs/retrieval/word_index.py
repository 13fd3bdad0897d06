"""An index of words, ranked by BM25 as Lucene does it. It needs no encoder, and is read into memory."""

from __future__ import annotations

from collections.abc import Sequence

from plat_envs.engines import postings
from plat_envs.environment_errors import BadEnvironment
from plat_envs.retrieval.corpus import BM25, Corpus, Found, Source
from plat_envs.retrieval.file_hash import written

MOST = 1_000_000  # pages: an index of more needs too much memory
_DIGITS = 8  # of a page's number, so that the order of ids as text is that of numbers


class WordIndex:
    """The index of a file. Raises BadEnvironment if it is damaged, or is of another number of pages."""

    kind, encoder_hash = BM25, ""

    def __init__(self, source: Source, pages: int) -> None:
        try:
            self._postings = postings.load(source.index)
        except BadEnvironment as error:
            raise source.misfit(f"the index is no index of words, or damaged: {error.what}") from None
        indexed = len(self._postings.ids)
        if indexed != pages:
            raise source.misfit(f"the index has {indexed:,} pages, and the corpus {source.corpus} has {pages:,}")

    def find(self, queries: Sequence[str], count: int) -> list[Found]:
        """Return up to `count` pages for each query."""
        return [[(int(name), score) for name, score in self._postings.search(query, count)] for query in queries]


def build(source: Source, corpus: Corpus) -> None:
    """Write the index of a corpus. Raises BadEnvironment for more than MOST pages, or if it cannot be written."""
    if len(corpus) > MOST:
        raise BadEnvironment(
            f"an index of words has at most {MOST:,} pages, and the corpus has {len(corpus):,}",
            where=str(source.corpus),
            fix="use an encoder: --encoder DIR",
        )
    index = postings.build((f"{number:0{_DIGITS}}", text) for number, text in enumerate(corpus.texts()))
    with written(source.index) as file:
        index.save(file)
