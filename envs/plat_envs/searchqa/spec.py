"""The specification of the environment `searchqa`."""

from __future__ import annotations

from functools import partial

from plat_envs.api import EnvironmentSpec
from plat_envs.data import fingerprint_of, is_here
from plat_envs.environment_errors import BadEnvironment
from plat_envs.searchqa.compact import CompactSeeker
from plat_envs.searchqa.config import SearchQAConfig
from plat_envs.searchqa.needs import needs
from plat_envs.searchqa.seeker import Seeker


def make(config: SearchQAConfig, split: str, rendering: str) -> Seeker:
    """Make the environment. Raises BadEnvironment for an unknown split or rendering, and for data that do not fit."""
    if rendering != "chat":
        if config.data != "generated":
            what = f"searchqa: data {config.data!r} has no compact rendering"
            raise BadEnvironment(what, fix="rendering: chat, or data: generated")
        return CompactSeeker(config, split, rendering)
    # The index needs numpy, which the compact rendering does not.
    from plat_envs.searchqa.chat import ChatSeeker
    from plat_envs.searchqa.hotpotqa import question_of_row
    from plat_envs.searchqa.questions import generated_question
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
