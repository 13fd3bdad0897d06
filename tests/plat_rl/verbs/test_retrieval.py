"""`plat retrieval` makes a corpus and an index; what is wrong with them is said in three lines. `plat plan` names the
server that a file needs."""

from __future__ import annotations

import threading

import pytest

from plat_envs.retrieval.corpus import Corpus, Source
from plat_envs.retrieval.server import Pages, Server

FILE = """
title: Questions over a server
base: {scale: smoke, task: searchqa, model.base.version: v3, task.env.server: 'SERVER'}
matrix: {seed: [0]}
"""


@pytest.fixture
def made(plat, tmp_path):
    """A corpus of 50 pages and its index."""
    corpus, index = tmp_path / "pages.jsonl", tmp_path / "words.index"
    assert plat("retrieval", "pages", "--out", corpus, "--count", 50, "--seed", 1)[:2] == (0, f"{corpus}: 50 pages\n")
    code, out, _ = plat("retrieval", "build", "--corpus", corpus, "--encoder", "bm25", "--out", index)
    assert (code, out) == (0, f"{index}: 50 pages, bm25\n")
    return Source(corpus, index, "bm25")


def test_pages_depend_on_their_seed(plat, made, tmp_path):
    for seed, same in ((1, True), (2, False)):
        plat("retrieval", "pages", "--out", tmp_path / "again.jsonl", "--count", 50, "--seed", seed)
        assert ((tmp_path / "again.jsonl").read_bytes() == made.corpus.read_bytes()) == same


@pytest.mark.parametrize("verb", ["serve", "build"])
@pytest.mark.parametrize("wrong", ["corpus", "index", "encoder", "host"])
def test_what_is_wrong_is_said_in_three_lines(plat, made, tmp_path, verb, wrong):
    good = {"corpus": made.corpus, "index": made.index, "encoder": "bm25", "host": "127.0.0.1"}
    bad = {"corpus": tmp_path / "gone", "index": tmp_path / "gone" / "gone", "encoder": tmp_path, "host": "256.1.1.1"}
    named = good | {wrong: bad[wrong]}
    if verb == "build":
        if wrong == "host":
            return
        named = {"corpus": named["corpus"], "encoder": named["encoder"], "out": named["index"]}
    code, out, err = plat("retrieval", verb, *(word for name, value in named.items() for word in (f"--{name}", value)))
    lines = err.splitlines()
    assert (code, out, len(lines)) == (2, "", 3) and lines[0].startswith("error: ") and lines[2].startswith("  fix: ")


def test_a_corpus_that_has_changed_does_not_fit_its_index(plat, made):
    made.corpus.write_bytes(made.corpus.read_bytes() + b'{"contents": "one more"}\n')
    code, _, err = plat("retrieval", "serve", "--corpus", made.corpus, "--index", made.index, "--encoder", "bm25")
    assert code == 2 and "has 50 pages" in err and "has 51" in err
    command = err.splitlines()[2].removeprefix("  fix: plat ").split()
    assert plat(*command)[0] == 0, "the command that it names mends it"
    assert len(Pages(made).corpus) == 51


def test_a_plan_names_the_server_that_it_needs(plat, made, tmp_path, nothing_named):
    server = Server(Pages(made), "127.0.0.1", 0)
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    file = tmp_path / "file.yaml"
    file.write_text(FILE.replace("SERVER", server.url))
    try:
        code, out, err = plat("plan", file, "--home", tmp_path / "home")
        assert code == 0, err
        assert f"needs a retrieval server at {server.url}" in out and ": it is here" in out
    finally:
        server.shutdown()
        server.server_close()
    code, out, err = plat("plan", file, "--home", tmp_path / "home")
    assert code == 0, err
    assert f"needs a retrieval server at {server.url}: it does not answer: " in out
    fix = "plat retrieval serve --corpus CORPUS --index INDEX --encoder bm25 --port"
    assert f"fix: {fix} {server.server_port}" in " ".join(out.split())


def test_the_first_pages_are_those_of_the_questions(made):
    from plat_envs.searchqa.encyclopaedia import encyclopaedia

    names = [text.partition("\n")[0].strip('"') for text in Corpus(made.corpus).texts()]
    assert names == list(encyclopaedia(1).entities)[:50]
