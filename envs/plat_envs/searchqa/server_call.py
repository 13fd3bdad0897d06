"""One request to a retrieval server, and the command that starts one."""

from __future__ import annotations

import contextlib
import json
import socket
import threading
from concurrent.futures import Future
from http.client import HTTPConnection, HTTPSConnection, IncompleteRead
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from plat_envs.searchqa.config import SearchQAConfig

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
