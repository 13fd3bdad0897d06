"""Indexes find what a plain computation finds, and one that does not fit is refused with the command that mends it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from benchmarks.tiny_encoder import tiny_encoder

from plat_envs import lucene
from plat_envs.environment_errors import BadEnvironment
from plat_envs.retrieval import indexes
from plat_envs.retrieval.corpus import Corpus, Source
from plat_envs.retrieval.indexes import PASSAGE, QUERY, Encoder, build_index, open_finder
from plat_envs.searchqa.encyclopaedia import write_pages

QUERIES = ["the capital of a country", "a painter who was born in 1901", "bridges", "trains leave every hour", ""]


@pytest.fixture(scope="module")
def vectors(tmp_path_factory):
    """A corpus of 500 pages, a tiny encoder, and a flat index."""
    folder = tmp_path_factory.mktemp("vectors")
    write_pages(folder / "pages.jsonl", 500, 0)
    corpus = Corpus(folder / "pages.jsonl")
    encoder = tiny_encoder(folder / "encoder", corpus.texts(), width=32)
    source = Source(folder / "pages.jsonl", folder / "flat.index", str(encoder))
    build_index(source, corpus)
    return source, corpus


def test_words_are_ranked_as_the_engine_ranks_them(words_source):
    corpus = Corpus(words_source.corpus)
    finder = open_finder(words_source, corpus)
    oracle = lucene.build((f"{n:04}", text) for n, text in enumerate(corpus.texts()))
    expected = [[(int(name), score) for name, score in oracle.search(query, 7)] for query in QUERIES]
    assert finder.find(QUERIES, 7) == expected and len(expected[0]) == 7 and expected[4] == []


def test_an_encoder_takes_the_mean_over_its_tokens(vectors):
    """An oracle without padding and without batches."""
    import torch

    source, corpus = vectors
    encoder = Encoder(source.encoder)
    texts = [*QUERIES, *list(corpus.texts())[:80]]
    for text, vector in zip(texts, encoder.encode(texts, PASSAGE), strict=True):
        with torch.inference_mode():
            tokens = encoder._tokenizer(f"passage: {text}", return_tensors="pt")
            mean = encoder._model(**tokens).last_hidden_state[0].mean(0).numpy()
        assert np.allclose(vector, mean / np.linalg.norm(mean), atol=1e-5)
    assert not np.allclose(encoder.encode(["ships"], QUERY), encoder.encode(["ships"], PASSAGE), atol=1e-3)


def test_vectors_are_found_as_by_a_product_of_matrices(vectors):
    source, corpus = vectors
    encoder, texts = Encoder(source.encoder), list(corpus.texts())
    queries = [*QUERIES, *(text[20:60] for text in texts[:40])]
    scores = encoder.encode(queries, QUERY) @ encoder.encode(texts, PASSAGE).T
    found = open_finder(source, corpus).find(queries, 5)
    for row, pages in zip(scores, found, strict=True):
        best = np.sort(row)[::-1][:5]
        assert np.allclose([score for _, score in pages], best, atol=2e-5)
        assert np.allclose(row[[number for number, _ in pages]], best, atol=2e-5), "and these are their pages"


def test_a_batch_has_the_answers_of_its_queries(vectors, words_source):
    for source in (vectors[0], words_source):
        finder = open_finder(source, Corpus(source.corpus))
        together, alone = finder.find(QUERIES, 5), [finder.find([query], 5)[0] for query in QUERIES]
        for one, other in zip(together, alone, strict=True):
            assert [number for number, _ in one] == [number for number, _ in other]
            assert np.allclose([score for _, score in one], [score for _, score in other], atol=2e-5)


def test_more_pages_than_there_are(vectors):
    found = open_finder(vectors[0], vectors[1]).find(["bridges"], 600)[0]
    assert sorted(number for number, _ in found) == list(range(500))


def test_hnsw_finds_nearly_all_of_the_best(vectors, tmp_path):
    source, corpus = vectors
    graph = replace(source, index=tmp_path / "graph.index")
    build_index(graph, corpus, "hnsw64")
    queries = [text[20:60] for text in list(corpus.texts())[:100]]
    exact, found = (open_finder(one, corpus).find(queries, 5) for one in (source, graph))
    common = [len(dict(one).keys() & dict(other).keys()) for one, other in zip(exact, found, strict=True)]
    assert sum(common) >= 0.9 * 500
    assert type(open_finder(graph, corpus)._index).__name__ == "IndexHNSWFlat"


def refused(source: Source, said: str, corpus: Corpus | None = None) -> BadEnvironment:
    with pytest.raises(BadEnvironment, match=said) as caught:
        open_finder(source, corpus or Corpus(source.corpus))
    assert caught.value.where and caught.value.fix
    return caught.value


@pytest.mark.parametrize("kind", ["words", "vectors"])
def test_an_index_that_cannot_be_used_names_the_command_that_makes_it(kind, vectors, words_source, tmp_path):
    good = words_source if kind == "words" else vectors[0]
    other = tmp_path / "other.jsonl"
    write_pages(other, 100, 0)
    bad = replace(good, index=tmp_path / "bad.index")
    fix = f"plat retrieval build --corpus {good.corpus} --encoder {good.encoder} --out {bad.index}"
    assert refused(bad, "there is no index").fix == fix
    content = good.index.read_bytes()
    for damage in (b"", b"nonsense", content[:1000], content[:-3], content[5:]):
        bad.index.write_bytes(damage)
        assert refused(bad, "damaged").fix == fix
    assert refused(replace(good, corpus=other), f"pages, and the corpus {other} has 100").where == str(good.index)


@pytest.mark.parametrize("kind", ["words", "vectors"])
def test_an_index_of_another_corpus_with_as_many_pages_is_refused(kind, vectors, words_source, tmp_path):
    good = words_source if kind == "words" else vectors[0]
    source = replace(good, corpus=tmp_path / "pages.jsonl", index=tmp_path / "one.index")
    write_pages(source.corpus, 20, 0)
    build_index(source, Corpus(source.corpus))
    open_finder(source, Corpus(source.corpus))
    source.corpus.write_bytes(b"".join(source.corpus.read_bytes().splitlines(keepends=True)[::-1]))
    fix = f"plat retrieval build --corpus {source.corpus} --encoder {source.encoder} --out {source.index}"
    assert refused(source, "built from another corpus").fix == fix
    beside = source.index.with_name("one.index.corpus.json")
    noted = beside.read_text()
    for foreign in (None, "nonsense", "[" * 200_000, "[]", noted.replace('"index": "', '"index": "0')):
        beside.unlink() if foreign is None else beside.write_text(foreign)
        open_finder(source, Corpus(source.corpus))
    build_index(source, Corpus(source.corpus))
    open_finder(source, Corpus(source.corpus))
    assert beside.read_text() != noted


@pytest.mark.parametrize("name", ["pages.jsonl", "linked.jsonl", "folder/../pages.jsonl"])
def test_an_index_that_is_the_corpus_is_refused(words_source, tmp_path, name):
    """Its fix would have overwritten the pages."""
    corpus = tmp_path / "pages.jsonl"
    write_pages(corpus, 20, 0)
    (tmp_path / "folder").mkdir()
    (tmp_path / "linked.jsonl").symlink_to(corpus)
    content, source = corpus.read_bytes(), replace(words_source, corpus=corpus, index=tmp_path / name)
    assert "plat retrieval build" not in refused(source, "same file").fix
    with pytest.raises(BadEnvironment, match="same file"):
        build_index(source, Corpus(corpus))
    assert corpus.read_bytes() == content


def test_an_index_of_the_other_kind_is_refused(vectors, words_source):
    refused(replace(words_source, index=vectors[0].index, corpus=vectors[0].corpus), "no index of words")
    refused(replace(vectors[0], index=words_source.index), "no index of FAISS")


def test_another_encoder_is_refused(vectors, tmp_path):
    import faiss

    source = vectors[0]
    wide = replace(source, encoder=str(tiny_encoder(tmp_path / "wide", ["a"], width=64)))
    assert wide.encoder in refused(wide, "have 32 numbers, and those of the encoder .* have 64").fix
    distances = replace(source, index=tmp_path / "distances.index")
    index = faiss.IndexFlatL2(32)
    index.add(np.zeros((500, 32), dtype=np.float32))
    faiss.write_index(index, str(distances.index))
    refused(distances, "ranks by distances")


def test_a_folder_without_an_encoder(vectors, tmp_path):
    assert "--local-dir" in refused(replace(vectors[0], encoder=str(tmp_path)), "there is no encoder").fix
    (tmp_path / "config.json").write_text('{"model_type": "bert"}')
    refused(replace(vectors[0], encoder=str(tmp_path)), "cannot be loaded")
    refused(replace(vectors[0], device="abacus"), "cannot be loaded")


def test_a_missing_package_is_named(vectors, monkeypatch):
    import sys

    monkeypatch.setitem(sys.modules, "faiss", None)
    assert "plat[retrieval]" in refused(vectors[0], "not installed: faiss-cpu").fix
    with pytest.raises(BadEnvironment, match="not installed: faiss-cpu"):
        build_index(vectors[0], vectors[1])


def test_nothing_is_left_of_an_index_that_cannot_be_built(vectors, words_source, tmp_path, monkeypatch):
    source, corpus = replace(vectors[0], index=tmp_path / "out" / "new.index"), vectors[1]
    with pytest.raises(BadEnvironment, match="cannot be written"):
        build_index(source, corpus)
    with pytest.raises(BadEnvironment, match="kind is 'ivf'"):
        build_index(source, corpus, "ivf")
    (tmp_path / "out").mkdir()
    monkeypatch.setattr(indexes, "PASSAGE", None)
    with pytest.raises(TypeError):
        build_index(source, corpus)
    monkeypatch.setattr("plat_envs.retrieval.indexes.MOST", 10)
    with pytest.raises(BadEnvironment, match="at most 10 pages"):
        build_index(replace(words_source, index=tmp_path / "out" / "new.index"), Corpus(words_source.corpus))
    assert not list((tmp_path / "out").iterdir())


def test_hashes_follow_the_content(vectors, tmp_path):
    one, other = (str(tiny_encoder(tmp_path / name, texts)) for name, texts in (("one", ["a"]), ("other", ["a b"])))
    assert Encoder(one).content_hash != Encoder(other).content_hash
    again = tiny_encoder(Path(tmp_path / "again"), ["a"])
    assert Encoder(str(again)).content_hash == Encoder(one).content_hash
