"""The specification of the environment `deepcoder`."""

from __future__ import annotations

from plat_envs.api import EnvironmentSpec
from plat_envs.programs.compact import CompactCoder
from plat_envs.programs.config import DeepCoderConfig


def make(config: DeepCoderConfig, split: str, rendering: str) -> CompactCoder:
    """Make the environment. Raises BadEnvironment for an unknown split or rendering."""
    return CompactCoder(config, split, rendering)


SPEC = EnvironmentSpec(name="deepcoder", config_type=DeepCoderConfig, make=make, version="1", plenty=512)
