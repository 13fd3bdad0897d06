"""An environment asks its server until it answers; what goes wrong ends the run, and is never an observation."""

from __future__ import annotations

import contextlib
import json
import random
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from plat_envs.api import configure, find_environment, make_environment
from plat_envs.environment_errors import BadEnvironment, ServiceError
from plat_envs.policies import response
from plat_envs.retrieval.corpus import Corpus, Source
from plat_envs.retrieval.indexes import build_index
from plat_envs.searchqa.config import SearchQAConfig
from plat_envs.searchqa.encyclopaedia import write_pages
from plat_envs.searchqa.retrieval import ServerSearch, retriever
from plat_envs.searchqa.spec import needs

PAGE = {"document": {"contents": '"A"\na'}, "score": 1}


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@pytest.fixture
def fake():
    """Start a server with these answers, (status, body), one after another and then the last: answers -> address."""
    servers = []

    def start(*answers):
        class Handler(BaseHTTPRequestHandler):
            def do_GET(self):
                status, body = answers[min(len(self.server.paths), len(answers) - 1)]
                self.server.paths.append(self.path)
                self.rfile.read(int(self.headers.get("Content-Length", 0)))
                self.send_response(status)
                self.end_headers()
                self.wfile.write(body if isinstance(body, bytes) else json.dumps(body).encode())

            do_POST = do_GET

            def log_message(self, *arguments):
                pass

        server = HTTPServer(("127.0.0.1", 0), Handler)
        server.paths = []
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        servers.append(server)
        return server, f"http://127.0.0.1:{server.server_port}"

    yield start
    for server in servers:
        server.shutdown()
        server.server_close()


def search_at(address, **options):
    return ServerSearch(SearchQAConfig(server=address, **options))


def test_a_server_of_the_generated_pages_answers_as_the_search_in_memory(tmp_path, serve):
    """The same pages with the same scores; those with the least one are drawn from all that have it."""
    write_pages(tmp_path / "pages.jsonl", 2000, 0)
    source = Source(tmp_path / "pages.jsonl", tmp_path / "words.index", "bm25")
    build_index(source, Corpus(source.corpus))
    local, remote = retriever(SearchQAConfig()), retriever(SearchQAConfig(server=serve(source).url))
    for query in ("the capital of Beldunland", "The Arfen Letters", "a wide river", "1901"):
        here, there = local(query, 5), [(text.replace('"', ""), score) for text, score in remote(query, 5)]
        least = here[-1][1]
        assert [score for _, score in here] == [score for _, score in there]
        assert {one for one in here if one[1] > least} == {one for one in there if one[1] > least}


def test_generated_questions_are_answered_over_a_server(words_server):
    """The optimal policy searches titles and reads the answer."""
    options = {"server": words_server.url, "index": words_server.pages.hashes.combined}
    environment = make_environment("searchqa", options, "validation", "chat")
    for seed in range(10):
        prompt = environment.reset(seed)
        while not environment.done:
            prompt = environment.step(response(environment, "optimal", random.Random(seed)))[0]
            if environment.queries and not environment.done:
                assert f'"{environment.queries[-1]}"' in prompt
        assert environment.success


def test_a_server_that_comes_late_is_waited_for(words_source, serve):
    port = free_port()
    with ThreadPoolExecutor(1) as threads:
        answer = threads.submit(search_at(f"http://127.0.0.1:{port}", patience=30.0), "bridges", 3)
        time.sleep(0.3)
        assert not answer.done()
        serve(words_source, port)
        assert len(answer.result()) == 3


def test_a_server_that_is_gone_ends_the_run_with_one_sentence():
    address = f"http://127.0.0.1:{free_port()}"
    environment = make_environment("searchqa", {"server": address, "patience": 0.3}, rendering="chat")
    environment.reset(0)
    begun = time.monotonic()
    with pytest.raises(ServiceError, match=r"has not answered for 0.3 seconds: .*refused") as caught:
        environment.step("</think> <answer> search[bridges] </answer>")
    assert 0.25 < time.monotonic() - begun < 5
    assert caught.value.where == address and "plat retrieval serve --corpus CORPUS" in caught.value.fix
    assert f"--port {address.rpartition(':')[2]}" in caught.value.fix and "\n" not in str(caught.value)


def test_patience_is_with_the_server_so_a_batch_does_not_wait_one_by_one():
    searches = [search_at(f"http://127.0.0.1:{free_port()}", patience=0.5)]
    searches += [ServerSearch(searches[0]._config) for _ in range(9)]
    begun = time.monotonic()
    for search in searches:
        with pytest.raises(ServiceError):
            search("bridges", 3)
    assert time.monotonic() - begun < 9 * 0.5


def test_a_query_that_fails_alone_ends_too(fake):
    """Other queries are answered meanwhile, so the server is not away."""
    bad, address = fake((500, {"error": "a damaged page"}))
    search = search_at(address, patience=0.4)
    ended = threading.Event()

    def others():
        while not ended.wait(0.02):
            search._outage.ended()

    with ThreadPoolExecutor(1) as threads:
        threads.submit(others)
        with pytest.raises(ServiceError, match="status 500: a damaged page"):
            search("bridges", 3)
        ended.set()
    assert len(bad.paths) > 1


@pytest.mark.parametrize("status", [500, 503])
def test_an_overloaded_server_is_asked_again(fake, status):
    server, address = fake((status, b"busy"), (status, b"busy"), (200, {"result": [[PAGE]]}))
    assert search_at(address)("a", 3) == [('"A"\na', 1.0)]
    assert len(server.paths) == 3


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        ((200, b"<html>"), "no JSON object"),
        ((200, [1]), "no JSON object"),
        ((200, {}), "no list of documents"),
        ((200, {"result": []}), "no list of documents"),
        ((200, {"result": [[{"document": "text", "score": 1}]]}), "no list of documents"),
        ((200, {"result": [[{"document": {"contents": 3}, "score": 1}]]}), "no text"),
        ((200, {"result": [[{"document": {"contents": "a"}, "score": None}]]}), "no list of documents"),
        ((200, {"result": [[{"document": {"contents": "a"}, "score": 10**400}]]}), "no list of documents"),
        ((200, {"result": [[{"document": {"contents": "a"}, "score": float("nan")}]]}), "score that is not finite"),
        ((200, {"result": [[{"document": {"contents": "a"}, "score": float("inf")}]]}), "score that is not finite"),
        ((200, {"result": [[PAGE] * 1000]}), "1,000 documents where 5 were asked for"),
        ((200, {"result": [""]}), "no list of documents"),
        ((200, {"result": [{}]}), "no list of documents"),
        ((200, b"[" * 200_000), "no JSON object"),
        ((400, b"[" * 200_000), "status 400"),
        ((400, {"error": "topk is 99"}), "status 400 to /retrieve: topk is 99"),
        ((404, b"nothing here"), "status 404 to /retrieve: nothing here"),
    ],
)
def test_a_strange_answer_ends_the_run_at_once(fake, answer, said):
    server, address = fake(answer)
    environment = make_environment("searchqa", {"server": address}, rendering="chat")
    environment.reset(0)
    with pytest.raises(ServiceError, match=said) as caught:
        environment.step("</think> <answer> search[bridges] </answer>")
    assert len(server.paths) == 1 and caught.value.where == address and caught.value.fix


@pytest.mark.parametrize("query", ["", "\ud800", "\0", "long " * 10_000, '"]}'])
def test_a_policy_may_search_for_any_text(words_server, query):
    environment = make_environment("searchqa", {"server": words_server.url}, rendering="chat")
    environment.reset(0)
    assert not environment.step(f"</think> <answer> search[{query}] </answer>")[2]


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (b"garbage \x1b[1m\r\n\r\n", "its answer is no HTTP: garbage ?[1m"),
        (b"HTTP/1.1 500 no\r\n\r\none\ntwo", "status 500: one two"),
        (b'HTTP/1.1 500 no\r\n\r\n{"error": "one\\ntwo"}', "status 500: one two"),
    ],
)
def test_what_a_server_says_is_one_line_of_an_error(answer, why):
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve():
            with contextlib.suppress(OSError):
                while True:
                    client = listener.accept()[0]
                    with client:
                        client.recv(1 << 16)
                        client.sendall(answer)
                        client.shutdown(socket.SHUT_WR)
                        client.recv(1 << 16)  # the rest of the request: unread, it would reset the connection

        threading.Thread(target=serve, daemon=True).start()
        address = f"http://127.0.0.1:{listener.getsockname()[1]}"
        if "garbage" in why:
            assert needs(SearchQAConfig(server=address))[0].absent == f"it does not answer: {why}"
        with pytest.raises(ServiceError) as caught:
            search_at(address, patience=0.0)("bridges", 3)
        listener.shutdown(socket.SHUT_RDWR)  # ends the thread
    assert caught.value.what == f"searchqa: the retrieval server has not answered for 0 seconds: {why}"


def test_another_index_is_no_reason_to_wait(fake, words_server):
    right = words_server.pages.hashes.combined
    search = search_at(words_server.url, index=right)
    assert search("bridges", 2) and search("bridges", 2)
    for address, said, advised in (
        (words_server.url, "another one", right),
        (fake((200, {"status": "healthy"}))[1], "names no index", None),
        (fake((200, {"hash": ""}))[1], "names no index", None),
    ):
        with pytest.raises(BadEnvironment, match=said) as caught:
            search_at(address, index="0" * 64)("bridges", 2)
        assert not isinstance(caught.value, ServiceError)
        assert caught.value.where == address and "0" * 64 in caught.value.fix
        assert caught.value.fix.partition("task.env.index=")[2] == (advised or "")


def test_a_server_that_is_exchanged_during_a_run_is_noticed(fake):
    server, address = fake(
        (200, {"hash": "a"}), (200, {"result": [[PAGE]], "hash": "a"}), (200, {"result": [[PAGE]], "hash": "b"})
    )
    search = search_at(address, index="a")
    assert search("a", 1)
    with pytest.raises(BadEnvironment, match="has the index b"):
        search("a", 1)
    assert server.paths == ["/health", "/retrieve", "/retrieve"]


def test_threads_are_used_only_where_they_wait_for_a_server():
    spec = find_environment("searchqa")
    assert not spec.concurrent(configure(spec, {}))
    assert spec.concurrent(configure(spec, {"server": "http://127.0.0.1:9"}))


@pytest.mark.parametrize(
    "server",
    [
        *("127.0.0.1:8000", "ftp://host", "http://", "http://host:port", "http://a..b", f"http://{'a' * 70}:80"),
        *("http://h:1/ä", "http://h:1/a b", "http://h:1/\x7f", "http://h h:80", "http://ä..ö"),
    ],
)
def test_an_address_that_is_none(server):
    with pytest.raises(BadEnvironment, match="server is"):
        SearchQAConfig(server=server)
