"""The server understands the clients of Search-R1 and RAGEN, answers together what comes together, and refuses the rest
with a sentence."""

from __future__ import annotations

import http.client
import json
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from plat_envs.environment_errors import BadEnvironment
from plat_envs.retrieval import server
from plat_envs.retrieval.corpus import Corpus
from plat_envs.retrieval.indexes import open_finder
from plat_envs.retrieval.requests import MOST_PAGES, MOST_QUERIES, read_request
from plat_envs.retrieval.server import Batcher, Server
from plat_envs.searchqa.retrieval import ask

QUERIES = ["the capital of a country", "bridges", "a painter"]


def post(server, content, path="/retrieve"):
    reply = ask(server.url, "POST", path, content, 10)
    return reply.status, json.loads(reply.body)


@pytest.fixture
def expected(words_source):
    """(page, score) of each query, from the index itself."""
    corpus = Corpus(words_source.corpus)
    found = open_finder(words_source, corpus).find(QUERIES, 4)
    return [[(corpus[number], score) for number, score in pages] for pages in found]


def test_a_client_of_search_r1(words_server, expected):
    status, answer = post(words_server, {"queries": QUERIES, "topk": 4, "return_scores": True})
    assert status == 200
    assert answer["result"] == [[{"document": page, "score": score} for page, score in pages] for pages in expected]
    assert all(set(one["document"]) == {"id", "contents"} for pages in answer["result"] for one in pages)
    _, answer = post(words_server, {"queries": QUERIES})
    assert answer["result"] == [[page for page, _ in pages[:3]] for pages in expected], "three pages without scores"
    assert post(words_server, {"queries": [], "topk": None})[1]["result"] == []


def test_a_client_of_ragen(words_server, expected):
    status, answer = post(words_server, {"query": QUERIES[0], "top_k": 4})
    results = [
        {"id": f"doc_{rank}", "content": page["contents"], "score": score}
        for rank, (page, score) in enumerate(expected[0], 1)
    ]
    del answer["hash"]
    assert (status, answer) == (200, {"query": QUERIES[0], "method": "bm25", "results": results, "num_results": 4})
    assert post(words_server, {"query": QUERIES[0]})[1]["num_results"] == 10
    assert post(words_server, {"query": QUERIES[0], "k": 2})[1]["num_results"] == 2
    assert post(words_server, {"query": "zzz"})[1]["results"] == []


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ([1], "neither queries nor query"),
        ({"topk": 3}, "neither queries nor query"),
        ({"queries": "one"}, "queries is 'one'"),
        ({"queries": ["one", 2]}, "queries is"),
        ({"query": ["one"]}, "query is"),
        ({"queries": ["a"] * (MOST_QUERIES + 1)}, "more than 1,024 queries"),
        ({"query": "a" * 10_001}, "10,000 characters"),
        ({"queries": ["one"], "topk": 0}, "topk is 0"),
        ({"queries": ["one"], "topk": MOST_PAGES + 1}, "topk is 1001"),
        ({"query": "one", "top_k": "3"}, "top_k is '3'"),
    ],
)
def test_a_bad_request_gets_a_sentence(words_server, content, said):
    status, answer = post(words_server, content)
    assert status == 400 and said in answer["error"]


def test_other_requests_are_refused(words_server):
    host, port = words_server.server_address
    connection = http.client.HTTPConnection(host, port, timeout=10)
    for method, path, body, headers, status in (
        ("POST", "/retrieve", b"{", {}, 400),
        ("POST", "/other", b"{}", {}, 404),
        ("GET", "/", None, {}, 404),
        ("GET", "/health", None, {}, 200),  # all on one connection
        ("PUT", "/retrieve", b"{}", {}, 501),
    ):
        connection.request(method, path, body, headers)
        reply = connection.getresponse()
        assert (reply.status, bool(reply.read())) == (status, True), path
    for length, status in (("99999999999", 413), ("-1", 411), ("many", 411)):
        connection = http.client.HTTPConnection(host, port, timeout=10)
        connection.putrequest("POST", "/retrieve")
        connection.putheader("Content-Length", length)
        connection.endheaders()
        assert connection.getresponse().status == status


def test_health_names_what_is_searched(words_source, words_server, serve):
    health = json.loads(ask(words_server.url, "GET", "/health", None, 10).body)
    assert (health["status"], health["corpus_size"], health["index_type"]) == ("healthy", 2100, "bm25")
    assert health["corpus"] == Corpus(words_source.corpus).content_hash and len(health["hash"]) == 64
    again = json.loads(ask(serve(words_source).url, "GET", "/health", None, 10).body)
    assert again["hash"] == health["hash"]
    assert post(words_server, {"query": "bridges"})[1]["hash"] == health["hash"]


class Slow:
    """Notes its calls, each of which takes until `go`."""

    kind, encoder_hash = "slow", ""

    def __init__(self):
        self.calls, self.go = [], threading.Event()

    def find(self, queries, count):
        self.calls.append((sorted(queries), count))
        assert self.go.wait(10)
        if "bad" in queries:
            raise ValueError("a query that breaks the index")
        return [[(int(query), float(count))] for query in queries]


def test_what_comes_together_is_answered_together(monkeypatch):
    """While one call works, ten clients come: they get one call for each number of pages."""
    monkeypatch.setattr(server, "WAIT", 0.2)
    slow = Slow()
    batcher = Batcher(slow)
    with ThreadPoolExecutor(20) as threads:
        first = threads.submit(batcher.find, ["0"], 3)
        while not slow.calls:
            pass
        later = [threads.submit(batcher.find, [str(n), str(n + 100)], 3 if n % 2 else 5) for n in range(1, 11)]
        while batcher._waiting.qsize() < 20:
            pass
        slow.go.set()
        assert first.result() == [[(0, 3.0)]]
        for n, future in enumerate(later, 1):
            count = 3.0 if n % 2 else 5.0
            assert future.result() == [[(n, count)], [(n + 100, count)]]
    assert [(len(queries), count) for queries, count in slow.calls] == [(1, 3), (10, 3), (10, 5)]
    assert (batcher.calls, batcher.queries) == (3, 21)


def test_an_error_of_the_index_reaches_its_clients_and_the_server_goes_on(words_server):
    words_server.pages.batcher._finder = slow = Slow()
    slow.go.set()
    assert post(words_server, {"query": "bad"}) == (500, {"error": "ValueError: a query that breaks the index"})
    assert post(words_server, {"query": "7"})[0] == 200


def test_a_query_that_breaks_the_index_spoils_no_other(monkeypatch):
    monkeypatch.setattr(server, "WAIT", 0.2)
    slow = Slow()
    slow.go.set()
    batcher = Batcher(slow)
    with ThreadPoolExecutor(3) as threads:
        bad, good = threads.submit(batcher.find, ["bad"], 3), threads.submit(batcher.find, ["7"], 3)
        assert good.result() == [[(7, 3.0)]]
        with pytest.raises(ValueError, match="breaks the index"):
            bad.result()
    assert slow.calls == [(["7", "bad"], 3), (["bad"], 3), (["7"], 3)] or slow.calls[1:] == [(["7"], 3), (["bad"], 3)]


def test_half_characters_are_replaced():
    assert read_request(b'{"query": "caf\\ud800e \\ud83e\\uddc0"}').queries == ("caf?e 🧀",)


def test_many_clients_at_once_get_their_own_answers(words_server, words_source):
    corpus = Corpus(words_source.corpus)
    titles = [text.partition("\n")[0].strip('"') for text in list(corpus.texts())[:300]]
    with ThreadPoolExecutor(64) as threads:
        replies = list(threads.map(lambda title: post(words_server, {"query": title, "top_k": 5}), titles))
    assert all(
        any(title in one["content"] for one in r["results"]) for title, (_, r) in zip(titles, replies, strict=True)
    )
    assert all(reply["query"] == title for title, (_, reply) in zip(titles, replies, strict=True))


@pytest.mark.parametrize(
    ("host", "port", "option"),
    [
        ("127.0.0.1", None, "--port"),
        ("127.0.0.1", 70_000, "--port"),
        ("192.0.2.1", 0, "--host"),
        ("256.1.1.1", 0, "--host"),
        ("a..b", 0, "--host"),
    ],
)
def test_an_address_at_which_it_cannot_listen(words_server, host, port, option):
    """The fix names the option that is wrong; None: the port of another server."""
    with pytest.raises(BadEnvironment, match="cannot listen") as caught:
        Server(words_server.pages, host, words_server.server_port if port is None else port)
    assert caught.value.fix.startswith(option)


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 200),
        ({"Host": "localhost:1"}, 200),
        ({"Host": "[::1]:1"}, 200),
        ({"Host": "evil.example.com"}, 403),
        ({"Host": "127.0.0.1.evil.example.com"}, 403),
        ({"Origin": "http://evil.example.com"}, 403),
        ({"Origin": "null", "Content-Type": "text/plain"}, 403),
        ({"Host": "[evil"}, 403),
    ],
)
def test_no_page_in_a_browser_reaches_the_server(words_server, headers, status):
    """A foreign page names its origin; one whose name leads to this machine names itself as the host."""
    for method, path, body in (("GET", "/health", None), ("POST", "/retrieve", b'{"query": "a"}')):
        connection = http.client.HTTPConnection("127.0.0.1", words_server.server_port, timeout=30)
        connection.request(method, path, body, headers)
        answer = connection.getresponse()
        assert answer.status == status, answer.read()
        connection.close()
