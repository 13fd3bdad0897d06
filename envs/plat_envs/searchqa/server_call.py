"""One request to a retrieval server, and the command that starts one."""

from __future__ import annotations

import json
from http.client import HTTPConnection, HTTPSConnection
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from plat_envs.searchqa.config import SearchQAConfig


class Reply(NamedTuple):
    status: int
    body: bytes


def ask(server: str, method: str, path: str, content: Any, seconds: float) -> Reply:
    """Send one request. Raises OSError or HTTPException if no whole answer comes within some `seconds`."""
    address = urlsplit(server)
    kind = HTTPSConnection if address.scheme == "https" else HTTPConnection
    # Not urllib: it would ask a proxy that the environment names, also for this machine.
    connection = kind(str(address.hostname), address.port, timeout=seconds)
    try:
        body = None if content is None else json.dumps(content).encode()
        headers = {"Content-Type": "application/json", "Connection": "close"}
        connection.request(method, address.path.rstrip("/") + path, body, headers)
        answer = connection.getresponse()
        return Reply(answer.status, answer.read())
    finally:
        connection.close()


def serve_command(config: SearchQAConfig) -> str:
    """Return the command that starts the server of this config, with CORPUS, INDEX and DIR to be filled in."""
    address = urlsplit(config.server)
    encoder = "bm25" if config.data == "generated" else "DIR"
    command = f"plat retrieval serve --corpus CORPUS --index INDEX --encoder {encoder} --port {address.port or 80}"
    here = address.hostname in ("127.0.0.1", "localhost", "::1")
    return command if here else f"{command} --host {address.hostname}"
