"""A run of the embedded trainer whose retrieval server is there, and one whose server is gone.

The compact rendering, which stand-ins play, searches its own small world. So here each of its steps asks the server
first, with the client that the chat rendering uses.
"""

from __future__ import annotations

import json
import socket
import threading

import pytest

from plat.runner.execution import execute
from plat.spec.expansion.experiment import build_run
from plat.store.home import Home
from plat.store.run_directory.creation import create
from plat_envs.retrieval.corpus import Corpus, Source
from plat_envs.retrieval.indexes import build_index
from plat_envs.retrieval.server import Pages, Server
from plat_envs.searchqa import spec
from plat_envs.searchqa.compact import CompactSeeker
from plat_envs.searchqa.encyclopaedia import write_pages
from plat_envs.searchqa.retrieval import retriever

TINY = ("scale=smoke", "task=searchqa", "model.base.version=v3")


class Asking(CompactSeeker):
    """Asks the server for a page at each step."""

    def step(self, text):
        if self.config.server:
            assert len(retriever(self.config)("bridges", 3)) == 3
        return super().step(text)


@pytest.fixture
def address(tmp_path):
    """A server of generated pages; it closes at the end."""
    write_pages(tmp_path / "pages.jsonl", 2000, 0)
    source = Source(tmp_path / "pages.jsonl", tmp_path / "words.index", "bm25")
    build_index(source, Corpus(source.corpus))
    server = Server(Pages(source), "127.0.0.1", 0)
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    yield server.url
    server.shutdown()
    server.server_close()


def test_a_run_ends_with_one_sentence_when_its_server_is_gone(tmp_path, address, monkeypatch):
    monkeypatch.setattr(spec, "CompactSeeker", Asking)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        gone = f"http://127.0.0.1:{probe.getsockname()[1]}"
    home = Home(tmp_path / "home").create()
    outcomes = {}
    for server in (address, gone):
        run = build_run([*TINY, f"task.env.server={server}", "task.env.patience=0.3"])
        paths = create(home, run, "")
        outcomes[server] = execute(home, paths.id)
    assert outcomes == {address: "finished", gone: "failed:service"}
    recorded = json.loads(paths.attempt(1).outcome.read_text())
    assert recorded["reason"].startswith("searchqa: the retrieval server has not answered for 0.3 seconds: ")
    assert f"({gone}); fix: start it, then run again: plat retrieval serve" in recorded["reason"]
