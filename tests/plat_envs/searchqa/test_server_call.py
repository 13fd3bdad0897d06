"""A request ends with its deadline, whatever the server sends, and an answer that is cut is no answer."""

from __future__ import annotations

import socket
import threading
import time
from http.client import IncompleteRead

import pytest

from plat_envs.searchqa import retrieval
from plat_envs.searchqa.retrieval import ask

OK = b"HTTP/1.1 200 OK\r\n"


@pytest.fixture
def dripping():
    """Start a server that sends `first`, and then `again` every .05 s: (address, event of a client that is gone)."""
    listeners = []

    def start(first: bytes, again: bytes = b"", seconds: float = 10.0):
        listener, gone = socket.create_server(("127.0.0.1", 0)), threading.Event()
        listeners.append(listener)

        def serve():
            client, _ = listener.accept()
            with client:
                client.recv(1 << 16)
                client.sendall(first)
                until = time.monotonic() + seconds
                while again and time.monotonic() < until:
                    try:
                        client.sendall(again)
                    except OSError:
                        gone.set()
                        return
                    time.sleep(0.05)

        threading.Thread(target=serve, daemon=True).start()
        return f"http://127.0.0.1:{listener.getsockname()[1]}", gone

    yield start
    for listener in listeners:
        listener.close()


@pytest.mark.parametrize(
    ("first", "again"),
    [
        (OK + b"Content-Length: 100000\r\n\r\n", b" "),
        (OK + b"\r\n", b" "),
        (OK + b"Transfer-Encoding: chunked\r\n\r\n", b"1\r\n \r\n"),
        (OK + b"X: ", b"y"),
        (b"", b"HTTP/1.1 100 Continue\r\n\r\n"),
    ],
)
def test_an_answer_that_never_ends_is_left(dripping, first, again):
    address, gone = dripping(first, again)
    with pytest.raises(TimeoutError, match="timed out"):
        ask(address, "GET", "/health", None, 0.3)
    assert gone.wait(5), "its connection is closed"


@pytest.mark.parametrize(
    "cut",
    [OK + b"Content-Length: 9\r\n\r\n{}", OK + b"Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n9\r\n"],
)
def test_an_answer_that_is_cut_is_an_error(dripping, cut):
    with pytest.raises(IncompleteRead):
        ask(dripping(cut)[0], "GET", "/health", None, 10)


@pytest.mark.parametrize("head", [b"Content-Length: 99\r\n", b""])
def test_no_more_is_read_than_the_longest_answer(dripping, monkeypatch, head):
    monkeypatch.setattr(retrieval, "LONGEST", 10)
    address, _ = dripping(OK + head + b"\r\n" + b" " * 99)
    assert ask(address, "GET", "/health", None, 10).body == b" " * 10
