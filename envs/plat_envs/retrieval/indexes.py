"""The indexes of a corpus: one of words, or one of vectors, opened or built as it fits an encoder."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Sequence
from hashlib import sha256
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from plat_envs import lucene
from plat_envs.environment_errors import BadEnvironment
from plat_envs.retrieval.corpus import BM25, Corpus, Finder, Found, Source, file_hash, written

SUFFIX = ".corpus.json"  # of the file beside an index that says which corpus it was built from


def open_finder(source: Source, corpus: Corpus) -> Finder:
    """Open the index. Raises BadEnvironment if it is missing or damaged, or fits the corpus or the encoder not."""
    _refuse_one_file(source)
    if not source.index.is_file():
        raise source.misfit("there is no index")
    finder: Finder
    if source.encoder == BM25:
        finder = WordIndex(source, len(corpus))
    else:
        finder = VectorIndex(source, len(corpus))
    if _built_from(source.index) not in ("", corpus.content_hash):
        raise source.misfit(f"the index was built from another corpus than {source.corpus}, with as many pages")
    return finder


def build_index(source: Source, corpus: Corpus, kind: str = "flat") -> None:
    """Write the index of a corpus. `kind`: flat or hnsw64, with an encoder. Raises BadEnvironment if it cannot."""
    _refuse_one_file(source)
    if source.encoder == BM25:
        build_words(source, corpus)
    else:
        build_vectors(source, corpus, kind)
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


# An index of words, ranked by BM25 as Lucene does it. It needs no encoder, and is read into memory.

MOST = 1_000_000  # pages: an index of more needs too much memory
_DIGITS = 8  # of a page's number, so that the order of ids as text is that of numbers


class WordIndex:
    """The index of a file. Raises BadEnvironment if it is damaged, or is of another number of pages."""

    kind, encoder_hash = BM25, ""

    def __init__(self, source: Source, pages: int) -> None:
        try:
            self._postings = lucene.load(source.index)
        except BadEnvironment as error:
            raise source.misfit(f"the index is no index of words, or damaged: {error.what}") from None
        indexed = len(self._postings.ids)
        if indexed != pages:
            raise source.misfit(f"the index has {indexed:,} pages, and the corpus {source.corpus} has {pages:,}")

    def find(self, queries: Sequence[str], count: int) -> list[Found]:
        """Return up to `count` pages for each query."""
        return [[(int(name), score) for name, score in self._postings.search(query, count)] for query in queries]


def build_words(source: Source, corpus: Corpus) -> None:
    """Write the index of a corpus. Raises BadEnvironment for more than MOST pages, or if it cannot be written."""
    if len(corpus) > MOST:
        raise BadEnvironment(
            f"an index of words has at most {MOST:,} pages, and the corpus has {len(corpus):,}",
            where=str(source.corpus),
            fix="use an encoder: --encoder DIR",
        )
    index = lucene.build((f"{number:0{_DIGITS}}", text) for number, text in enumerate(corpus.texts()))
    with written(source.index) as file:
        index.save(file)


# An index of vectors, searched by FAISS: flat (exact) or HNSW64. Its vectors stay in the file, mapped into memory.

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


def build_vectors(source: Source, corpus: Corpus, kind: str) -> None:
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


# An encoder of the family E5: texts become vectors of length 1, from a folder in the format of Hugging Face.

QUERY, PASSAGE = "query: ", "passage: "  # E5 was trained with these words in front
LONGEST = 256  # tokens of a text; the rest is cut
BATCH = 64  # texts that go through the network together
_WEIGHTS = ("model.safetensors", "pytorch_model.bin")
_OTHERS = ("config.json", "tokenizer.json", "tokenizer_config.json", "vocab.txt", "special_tokens_map.json")


class Encoder:
    """The encoder of a folder. `dimension` of its vectors.

    Raises BadEnvironment if a package is missing, the folder holds no encoder, or the device cannot be used.
    """

    def __init__(self, folder: str, device: str = "cpu") -> None:
        self.folder = Path(folder)
        if not (self.folder / "config.json").is_file():
            raise BadEnvironment(
                "there is no encoder: a folder with config.json, weights and a tokenizer is needed",
                where=folder,
                fix="hf download intfloat/e5-base-v2 --local-dir DIR, and --encoder DIR; or --encoder bm25",
            )
        try:
            import torch
            from transformers import AutoModel, AutoTokenizer
        except ImportError as error:
            what = f"an encoder needs a package that is not installed: {error.name}"
            raise BadEnvironment(what, where=folder, fix="pip install 'plat[hub]', or --encoder bm25") from None
        try:
            self._tokenizer: Any = AutoTokenizer.from_pretrained(folder, local_files_only=True)
            model: Any = AutoModel.from_pretrained(folder, local_files_only=True, dtype=torch.float32)
            self._model = model.to(device).eval()
        except Exception as error:  # files and devices raise errors of many classes
            raise BadEnvironment(
                f"the encoder cannot be loaded: {type(error).__name__}: {str(error).strip().splitlines()[0]}",
                where=folder,
                fix="download the folder again, and use a device that this machine has (--device)",
            ) from None
        self._device = device
        self.dimension = int(self._model.config.hidden_size)
        self._longest = min(LONGEST, int(getattr(self._model.config, "max_position_embeddings", LONGEST)))

    def encode(self, texts: Sequence[str], prefix: str) -> NDArray[np.float32]:
        """Return a vector of length 1 for each text. `prefix`: QUERY or PASSAGE."""
        import torch

        order = sorted(range(len(texts)), key=lambda number: len(texts[number]))  # equal lengths need little padding
        vectors = np.empty((len(texts), self.dimension), dtype=np.float32)
        for first in range(0, len(order), BATCH):
            chosen = order[first : first + BATCH]
            tokens = self._tokenizer(
                [prefix + texts[number] for number in chosen],
                padding=True,
                truncation=True,
                max_length=self._longest,
                return_tensors="pt",
            ).to(self._device)
            with torch.inference_mode():
                states = self._model(**tokens).last_hidden_state
                mask = tokens["attention_mask"][..., None]
                mean = (states * mask).sum(1) / mask.sum(1).clamp(min=1)
                vectors[chosen] = torch.nn.functional.normalize(mean, dim=-1).cpu().numpy()
        return vectors

    @property
    def content_hash(self) -> str:
        """The SHA-256 of the files that decide the vectors."""
        weights = [name for name in _WEIGHTS if (self.folder / name).is_file()][:1]
        names = [*(name for name in _OTHERS if (self.folder / name).is_file()), *weights]
        return sha256("\n".join(f"{name} {file_hash(self.folder / name)}" for name in names).encode()).hexdigest()
