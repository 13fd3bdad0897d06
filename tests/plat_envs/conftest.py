"""A corpus of generated pages with an index of words, and servers in this process."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator

import pytest

from plat_envs.retrieval.corpus import Corpus, Source
from plat_envs.retrieval.indexes import build_index
from plat_envs.retrieval.server import Pages, Server
from plat_envs.searchqa.encyclopaedia import write_pages


@pytest.fixture(scope="session")
def words_source(tmp_path_factory: pytest.TempPathFactory) -> Source:
    """The files of the 2,000 pages of the encyclopaedia and 100 further ones."""
    folder = tmp_path_factory.mktemp("pages")
    write_pages(folder / "pages.jsonl", 2100, 0)
    source = Source(folder / "pages.jsonl", folder / "words.index", "bm25")
    build_index(source, Corpus(source.corpus))
    return source


@pytest.fixture
def serve() -> Iterator[Callable[..., Server]]:
    """Start a server of these files in this process: (source, port) -> server."""
    servers = []

    def start(source: Source, port: int = 0) -> Server:
        server = Server(Pages(source), "127.0.0.1", port)
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        servers.append(server)
        return server

    yield start
    for server in servers:
        server.shutdown()
        server.server_close()


@pytest.fixture
def words_server(words_source: Source, serve: Callable[..., Server]) -> Server:
    return serve(words_source)
