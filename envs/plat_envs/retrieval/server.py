"""The server: POST /retrieve finds pages, GET /health says what it searches. One process, any number of clients."""

from __future__ import annotations

import errno
import json
import queue
import socket
import sys
import threading
import time
from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from ipaddress import ip_address
from socketserver import TCPServer
from typing import Any
from urllib.parse import urlsplit

from plat_envs.environment_errors import BadEnvironment
from plat_envs.retrieval.corpus import Corpus, Finder, Found, Hashes, Source, file_hash
from plat_envs.retrieval.indexes import open_finder
from plat_envs.retrieval.requests import read_request, reply

MOST_BYTES = 1 << 24  # of a request
IDLE = 120.0  # a connection on which nothing comes for so long is closed [seconds]


class Pages:
    """A corpus and its index, as the server uses them.

    Raises BadEnvironment if a file is missing or damaged, or they do not fit each other.
    """

    def __init__(self, source: Source) -> None:
        self.corpus = Corpus(source.corpus)
        self.finder: Finder = open_finder(source, self.corpus)
        self.hashes = Hashes(self.corpus.content_hash, file_hash(source.index), self.finder.encoder_hash)
        self.batcher = Batcher(self.finder)

    def health(self) -> dict[str, Any]:
        """Return what is searched. The first four entries are those of RAGEN's server."""
        hashes = self.hashes
        return {
            "status": "healthy",
            "corpus_size": len(self.corpus),
            "index_type": self.finder.kind,
            "index_loaded": True,
            "corpus": hashes.corpus,
            "index": hashes.index,
            "encoder": hashes.encoder,
            "hash": hashes.combined,
            "calls": self.batcher.calls,
            "queries": self.batcher.queries,
        }

    def retrieve(self, body: bytes) -> dict[str, Any]:
        """Answer a request. Raises BadEnvironment if it is none."""
        request = read_request(body)
        found = [
            [(self.corpus[number], score) for number, score in pages]
            for pages in self.batcher.find(request.queries, request.count)
        ]
        return reply(request, self.finder.kind, found) | {"hash": self.hashes.combined}


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"  # connections stay open
    timeout = IDLE
    wbufsize = -1  # head and body leave together
    disable_nagle_algorithm = True
    server: Server

    def do_GET(self) -> None:
        if self._is_foreign():
            return
        if self.path == "/health":
            self._send(200, self.server.pages.health())
        else:
            self._send(404, {"error": "there are POST /retrieve and GET /health"})

    def do_POST(self) -> None:
        if self._is_foreign():
            return
        length = self.headers.get("Content-Length", "")
        if not length.isdecimal() or int(length) > MOST_BYTES:
            self.close_connection = True  # its body is not read
            self._send(413 if length.isdecimal() else 411, {"error": f"Content-Length is needed, up to {MOST_BYTES:,}"})
            return
        body = self.rfile.read(int(length))
        if self.path != "/retrieve":
            self._send(404, {"error": "there are POST /retrieve and GET /health"})
            return
        try:
            self._send(200, self.server.pages.retrieve(body))
        except BadEnvironment as error:
            self._send(400, {"error": str(error)})
        except Exception as error:  # the client hears of it and may ask again; the server goes on
            print(f"a request failed: {type(error).__name__}: {error}", file=sys.stderr, flush=True)
            self._send(500, {"error": f"{type(error).__name__}: {error}"})

    def _is_foreign(self) -> bool:
        """Refuse a request that a page in a browser makes, and return True for it.

        Browsers name the page's origin. A page whose name was made to lead to this machine (DNS rebinding) names that
        as the host, so a server that listens for this machine alone answers under its own names alone.
        """
        try:
            host = urlsplit(f"//{self.headers.get('Host', '')}").hostname or ""
        except ValueError:  # a bracket that is not closed
            host = "?"
        own = host in ("", "localhost") or _is_loopback(host)
        if self.headers.get("Origin") is None and (own or not _is_loopback(str(self.server.server_address[0]))):
            return False
        self.close_connection = True  # a body is not read
        self._send(403, {"error": "requests of web pages, and under other names than this machine's own, are refused"})
        return True

    def _send(self, status: int, content: dict[str, Any]) -> None:
        body = json.dumps(content).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        if self.close_connection:
            self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *arguments: Any) -> None:
        """Print nothing for a request."""


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


class Server(ThreadingHTTPServer):
    """A server of these pages at host:port; port 0 takes a free one. Raises BadEnvironment if it cannot listen."""

    daemon_threads = True
    block_on_close = False
    request_queue_size = 1024  # clients that come at the same moment

    def __init__(self, pages: Pages, host: str, port: int) -> None:
        self.pages = pages
        if ":" in host:
            self.address_family = socket.AF_INET6
        try:
            super().__init__((host, port), Handler)
        except (OSError, OverflowError, UnicodeError) as error:
            what = f"the server cannot listen: {getattr(error, 'strerror', None) or error}"
            port_is_bad = getattr(error, "errno", None) in (errno.EADDRINUSE, errno.EACCES)
            if port_is_bad or isinstance(error, OverflowError):
                fix = "--port N with a free port"
            else:
                fix = "--host with an address of this machine: 127.0.0.1, or 0.0.0.0 for all that it has"
            raise BadEnvironment(what, where=f"{host}:{port}", fix=fix) from None

    @property
    def url(self) -> str:
        host = str(self.server_address[0])
        return f"http://{f'[{host}]' if ':' in host else host}:{self.server_address[1]}"

    def server_bind(self) -> None:
        """Bind without asking for the name of this machine, which may wait for a name server."""
        TCPServer.server_bind(self)
        self.server_name, self.server_port = str(self.server_address[0]), int(self.server_address[1])

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing: a client that goes away before its answer is no fault of the server."""


# Queries of many clients, collected for a few milliseconds and answered together.

WAIT = 0.007  # for further queries after the first [seconds]
MOST = 256  # queries that are answered together


@dataclass
class _Asked:
    query: str
    count: int
    answer: Future[Found] = field(default_factory=Future)


class Batcher:
    """Calls a finder from one thread: once for all queries of a batch that want the same number of pages.

    `calls` and `queries` count what was done.
    """

    def __init__(self, finder: Finder) -> None:
        self._finder = finder
        self._waiting: queue.SimpleQueue[_Asked] = queue.SimpleQueue()
        self.calls = self.queries = 0
        threading.Thread(target=self._work, name="batches", daemon=True).start()

    def find(self, queries: Sequence[str], count: int) -> list[Found]:
        """Return up to `count` pages for each query. Raises what the finder raises."""
        asked = [_Asked(query, count) for query in queries]
        for one in asked:
            self._waiting.put(one)
        return [one.answer.result() for one in asked]

    def _work(self) -> None:
        while True:
            batch = [self._waiting.get()]
            until = time.monotonic() + WAIT
            while len(batch) < MOST:
                try:
                    batch.append(self._waiting.get(timeout=max(0.0, until - time.monotonic())))
                except queue.Empty:
                    break
            # The pages of HNSW depend on how many are asked for, so another number is another call.
            for count in sorted({one.count for one in batch}):
                self._answer([one for one in batch if one.count == count], count)

    def _answer(self, batch: list[_Asked], count: int) -> None:
        try:
            found = self._finder.find([one.query for one in batch], count)
        except Exception as error:  # whatever it is, its client must hear of it, and the thread must live on
            if len(batch) == 1:
                batch[0].answer.set_exception(error)
            else:  # one query must not spoil the others
                for one in batch:
                    self._answer([one], count)
            return
        self.calls, self.queries = self.calls + 1, self.queries + len(batch)
        for one, pages in zip(batch, found, strict=True):
            one.answer.set_result(pages)
