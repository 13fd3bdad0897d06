"""What runs of `searchqa` need beside this package: a retrieval server, files, a dataset of the hub."""

from __future__ import annotations

import json
from http.client import HTTPException
from pathlib import Path

from plat_envs.api import Need
from plat_envs.hub_cache import dataset_need
from plat_envs.searchqa.config import SearchQAConfig
from plat_envs.searchqa.server_call import ask, serve_command
from plat_envs.server_words import one_line, said

# The published corpus and its index: 21,015,324 passages, 768 numbers of 4 bytes each.
PUBLISHED = "the published flat index takes 64.5 GB of memory, its corpus 14 GB of disk"
QUICKLY = 1.0  # a server that does not answer within it counts as away [seconds]


def needs(config: SearchQAConfig) -> list[Need]:
    """Return the server, files and dataset of this config, and whether they are here."""
    found = []
    if config.data == "file":
        found += [_file(path) for path in (config.path, config.validation_path) if path]
    if config.data == "hub":
        found.append(dataset_need(config.dataset))
    if config.server:
        found.append(_server(config))
    return found


def _file(path: str) -> Need:
    here = Path(path).is_file()
    return Need(
        f"the questions in {path}", "" if here else "there is no such file", "" if here else "task.env.path=FILE"
    )


def _server(config: SearchQAConfig) -> Need:
    memory = "" if config.data == "generated" else f" ({PUBLISHED})"
    what = f"a retrieval server at {config.server}{memory}"
    found, absent = _index_of(config.server)
    if not absent and config.index not in ("", found):
        absent = f"it has the index {found}, not {config.index}" if found else "it names no index"
    if absent:
        return Need(what, absent, serve_command(config))
    if found and not config.index:
        what += f"; task.env.index={found} would make sure that its pages stay the same"
    return Need(what)


def _index_of(server: str) -> tuple[str, str]:
    """Return the hash that a server gives, "" for none, and why it cannot be used now, "" if it can."""
    try:
        reply = ask(server, "GET", "/health", None, QUICKLY)
    except (OSError, HTTPException) as error:
        return "", f"it does not answer: {said(error)}"
    if reply.status != 200:
        return "", f"it answers /health with status {reply.status}"
    try:
        found = json.loads(reply.body).get("hash")
    except (ValueError, AttributeError, RecursionError):
        return "", "it answers /health with something else than a JSON object"
    return one_line(found) if isinstance(found, str) else "", ""
