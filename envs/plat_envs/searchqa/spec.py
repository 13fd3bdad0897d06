"""The specification of the environment `searchqa`."""

from __future__ import annotations

import json
from functools import partial
from http.client import HTTPException
from pathlib import Path

from plat_envs.api import EnvironmentSpec, Need
from plat_envs.data import dataset_need, fingerprint_of, is_here
from plat_envs.environment_errors import BadEnvironment, one_line, said
from plat_envs.searchqa.compact import CompactSeeker
from plat_envs.searchqa.config import SearchQAConfig, Seeker
from plat_envs.searchqa.retrieval import ask, serve_command

# The published corpus and its index: 21,015,324 passages, 768 numbers of 4 bytes each.
# What runs of `searchqa` need beside this package: a retrieval server, files, a dataset of the hub.

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


def make(config: SearchQAConfig, split: str, rendering: str) -> Seeker:
    """Make the environment. Raises BadEnvironment for an unknown split or rendering, and for data that do not fit."""
    if rendering != "chat":
        if config.data != "generated":
            what = f"searchqa: data {config.data!r} has no compact rendering"
            raise BadEnvironment(what, fix="rendering: chat, or data: generated")
        return CompactSeeker(config, split, rendering)
    # The index needs numpy, which the compact rendering does not.
    from plat_envs.searchqa.chat import ChatSeeker
    from plat_envs.searchqa.questions import generated_question, question_of_row
    from plat_envs.searchqa.retrieval import retriever

    question_of = generated_question if config.data == "generated" else question_of_row
    return ChatSeeker(config, split, rendering, retriever(config), partial(question_of, config, split))


def _fingerprint(config: SearchQAConfig) -> dict[str, str]:
    """Return the hashes of the files of questions, and the index that is asked for.

    Raises BadEnvironment if a file cannot be read.
    """
    files = {"data_sha256": config.path, "validation_sha256": config.validation_path}
    named = {name: path for name, path in files.items() if path and config.data == "file"}
    return fingerprint_of(named) | ({"index": config.index} if config.index else {})


def _waits(config: SearchQAConfig) -> bool:
    """Return True if environments wait for a server, so that threads help."""
    return bool(config.server)


SPEC = EnvironmentSpec(
    name="searchqa",
    config_type=SearchQAConfig,
    make=make,
    version="1",
    fingerprint=_fingerprint,
    countable=is_here,
    plenty=512,
    concurrent=_waits,
    needs=needs,
)
