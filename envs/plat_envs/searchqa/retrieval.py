"""Where pages are searched: the generated encyclopaedia in memory, or a retrieval server."""

from __future__ import annotations

import contextlib
import json
import math
import socket
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from http.client import HTTPConnection, HTTPException, HTTPSConnection, IncompleteRead
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from plat_envs.environment_errors import BadEnvironment, ServiceError, one_line, said
from plat_envs.retrieval.requests import MOST_CHARACTERS
from plat_envs.searchqa.config import SearchQAConfig

# One request to a retrieval server, and the command that starts one.

LONGEST = 1 << 26  # an answer; the rest is not read [bytes]


class Reply(NamedTuple):
    status: int
    body: bytes


def ask(server: str, method: str, path: str, content: Any, seconds: float) -> Reply:
    """Send one request. Raises OSError or HTTPException if no whole answer comes within `seconds`."""
    address = urlsplit(server)
    kind = HTTPSConnection if address.scheme == "https" else HTTPConnection
    # Not urllib: it would ask a proxy that the environment names, also for this machine.
    connection = kind(str(address.hostname), address.port, timeout=seconds)
    body = None if content is None else json.dumps(content).encode()
    headers = {"Content-Type": "application/json", "Connection": "close"}
    sockets: list[socket.socket] = []
    reply: Future[Reply] = Future()

    def call() -> None:
        try:
            connection.connect()
            sockets.append(connection.sock)
            connection.request(method, address.path.rstrip("/") + path, body, headers)
            with connection.getresponse() as answer:
                text = answer.read(LONGEST)
                if answer.length and len(text) < LONGEST:
                    raise IncompleteRead(text, answer.length)
            reply.set_result(Reply(answer.status, text))
        except Exception as error:  # whatever it is, it is raised below
            reply.set_exception(error)
        finally:
            connection.close()

    # In a thread, because the timeout of a socket begins again with each byte.
    threading.Thread(target=call, name="request", daemon=True).start()
    try:
        return reply.result(timeout=seconds)
    except TimeoutError:
        for one in sockets:
            with contextlib.suppress(OSError):
                socket.socket.shutdown(one, socket.SHUT_RDWR)  # ends the thread
        raise TimeoutError("timed out") from None


def serve_command(config: SearchQAConfig) -> str:
    """Return the command that starts the server of this config, with CORPUS, INDEX and DIR to be filled in."""
    address = urlsplit(config.server)
    encoder = "bm25" if config.data == "generated" else "DIR"
    command = f"plat retrieval serve --corpus CORPUS --index INDEX --encoder {encoder} --port {address.port or 80}"
    here = address.hostname in ("127.0.0.1", "localhost", "::1")
    return command if here else f"{command} --host {address.hostname}"


# The client of a retrieval server. It asks again while the server is away, and then ends the run.
#
# It speaks the form of Search-R1, so it can also ask the servers that others have published.

FIRST_PAUSE, LONGEST_PAUSE = 0.1, 5.0  # between two attempts [seconds]
LEAST_TIME = 1.0  # that one attempt gets [seconds]
Document = tuple[str, float]  # text and score


class Outage:
    """Measures for how long a server has not answered anybody in this process.

    Patience is used up for all: the other episodes of a batch do not wait for as long again.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._since = self._newest = -math.inf

    def failed(self, begun: float, patience: float) -> float:
        """Note an attempt that failed, which began at `begun`. Return the seconds of patience that are left."""
        now = time.monotonic()
        with self._lock:
            if begun - self._newest > 2 * LONGEST_PAUSE:  # the last outage is over, even if nobody asked since
                self._since = begun
            self._newest = now
            return self._since + patience - now

    def left(self, patience: float) -> float:
        """Return the seconds of patience that are left, LEAST_TIME or more."""
        now = time.monotonic()
        with self._lock:
            away = now - self._newest <= 2 * LONGEST_PAUSE
            return max(LEAST_TIME, self._since + patience - now if away else patience)

    def ended(self) -> None:
        """Note that the server has answered."""
        with self._lock:
            self._newest = self._since = -math.inf


_OUTAGES: dict[str, Outage] = {}


class ServerSearch:
    """A search on the server of the config, for one environment."""

    def __init__(self, config: SearchQAConfig) -> None:
        self._config = config
        self._outage = _OUTAGES.setdefault(config.server, Outage())
        self._checked = not config.index

    def __call__(self, query: str, count: int) -> list[Document]:
        """Return up to `count` documents, best first.

        Raises ServiceError if the server does not answer for `patience` seconds, or answers with something else, and
        BadEnvironment if it searches another index than the config names.
        """
        if not self._checked:
            self._check_hash(self._answer("GET", "/health", None).get("hash"))
            self._checked = True
        # A policy may write any text: a part of a very long one decides as well.
        query = query[:MOST_CHARACTERS]
        answer = self._answer("POST", "/retrieve", {"queries": [query], "topk": count, "return_scores": True})
        if "hash" in answer:  # of the server that has answered, which may be another one since the first request
            self._check_hash(answer["hash"])
        try:
            (found,) = answer["result"]
            if not isinstance(found, list):
                raise TypeError
            documents = [(one["document"]["contents"], float(one["score"])) for one in found]
        except (KeyError, TypeError, ValueError, OverflowError):
            raise self._strange(f"no list of documents with scores: {str(answer)[:80]}") from None
        if len(documents) > count:
            raise self._strange(f"{len(documents):,} documents where {count} were asked for")
        if not all(isinstance(text, str) for text, _ in documents):
            raise self._strange("a document that is no text")
        if not all(math.isfinite(score) for _, score in documents):
            raise self._strange("a score that is not finite")
        return documents

    def _check_hash(self, found: Any) -> None:
        if self._config.index and found != self._config.index:
            what = "names no index, and the run was planned with one"
            fix = f"start plat's server with the index {self._config.index}"
            if isinstance(found, str) and found:
                what = f"has the index {one_line(found)}, and the run was planned with another one"
                fix += f", or make new runs: task.env.index={one_line(found)}"
            raise BadEnvironment(f"searchqa: the retrieval server {what}", where=self._config.server, fix=fix)

    def _answer(self, method: str, path: str, content: Any) -> dict[str, Any]:
        """Return the JSON object that the server answers. Ask again while it is away."""
        patience, pause = self._config.patience, FIRST_PAUSE
        first = time.monotonic()
        while True:
            begun = time.monotonic()
            try:
                reply = ask(self._config.server, method, path, content, self._outage.left(patience))
                if reply.status < 500:
                    break
                why = f"status {reply.status}: {_sentence(reply.body)}"
            except (OSError, HTTPException) as error:
                why = said(error)
            # A query that fails alone, while others are answered, ends too.
            left = min(self._outage.failed(begun, patience), first + patience - time.monotonic())
            if left <= 0:
                raise ServiceError(
                    f"searchqa: the retrieval server has not answered for {patience:g} seconds: {why}",
                    where=self._config.server,
                    fix=f"start it, then run again: {serve_command(self._config)}",
                )
            time.sleep(min(pause, left))
            pause = min(2 * pause, LONGEST_PAUSE)
        self._outage.ended()
        if reply.status != 200:
            raise self._strange(f"status {reply.status} to {path}: {_sentence(reply.body)}")
        try:
            answer = json.loads(reply.body)
        except (ValueError, RecursionError):
            answer = None
        if not isinstance(answer, dict):
            raise self._strange(f"no JSON object to {path}: {reply.body[:80]!r}")
        return answer

    def _strange(self, what: str) -> ServiceError:
        return ServiceError(
            f"searchqa: the retrieval server answers {what}",
            where=self._config.server,
            fix=f"start plat's server there: {serve_command(self._config)}",
        )


def _sentence(body: bytes) -> str:
    """Return what a body says of an error: its `error` if it is JSON, or else its beginning."""
    try:
        return one_line(str(json.loads(body)["error"]))
    except (ValueError, KeyError, TypeError, RecursionError):
        return one_line(body[:80].decode("utf-8", "replace"))


def retriever(config: SearchQAConfig) -> Callable[[str, int], list[Document]]:
    """Return the function (query, number of pages) -> documents, best first."""
    if config.server:
        return ServerSearch(config)
    from plat_envs.searchqa.encyclopaedia import encyclopaedia

    pages = encyclopaedia(config.encyclopaedia)

    def search(query: str, count: int) -> list[Document]:
        return [(f"{name}\n{pages.entities[name].text}", score) for name, score in pages.index.search(query, count)]

    return search
