"""The specification of the environment `searchqa`."""

from __future__ import annotations

from plat_envs.api import EnvironmentSpec
from plat_envs.searchqa.compact import CompactSeeker
from plat_envs.searchqa.config import SearchQAConfig
from plat_envs.searchqa.seeker import Seeker


def make(config: SearchQAConfig, split: str, rendering: str) -> Seeker:
    """Make the environment. Raises BadEnvironment for an unknown split or rendering, and for data that do not fit."""
    return CompactSeeker(config, split, rendering)


SPEC = EnvironmentSpec(name="searchqa", config_type=SearchQAConfig, make=make, version="1", plenty=512)
