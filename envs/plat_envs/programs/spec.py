"""The specification of the environment `deepcoder`."""

from __future__ import annotations

from functools import partial

from plat_envs.api import EnvironmentSpec
from plat_envs.data import fingerprint
from plat_envs.environment_errors import BadEnvironment
from plat_envs.programs.compact import CompactCoder
from plat_envs.programs.config import DeepCoderConfig
from plat_envs.programs.means import means, needs
from plat_envs.programs.published import is_countable, published_problem
from plat_envs.turns.episode import Episode


def make(config: DeepCoderConfig, split: str, rendering: str) -> Episode:
    """Make the environment. Raises BadEnvironment for an unknown split or rendering, and for data that do not fit."""
    if rendering != "chat":
        if config.data != "generated":
            what = f"deepcoder: data {config.data!r} has no compact rendering"
            raise BadEnvironment(what, fix="rendering: chat, or data: generated")
        return CompactCoder(config, split, rendering)
    from plat_envs.programs.chat import ChatCoder
    from plat_envs.programs.generated import generated_problem

    if config.level == "limits_only":
        what = "deepcoder: limits_only is refused for programs of a language model"
        raise BadEnvironment(what, where="task.env.sandbox", fix="auto, or rendering: compact, which runs no program")
    problem_of = generated_problem if config.data == "generated" else published_problem
    return ChatCoder(config, split, rendering, partial(problem_of, config, split))


def _concurrent(config: DeepCoderConfig) -> bool:
    return True  # episodes in the chat rendering wait for the sandbox, and those that wait are graded together


SPEC = EnvironmentSpec(
    name="deepcoder",
    config_type=DeepCoderConfig,
    make=make,
    version="1",
    fingerprint=fingerprint,
    countable=is_countable,
    plenty=512,
    concurrent=_concurrent,
    needs=needs,
    means=means,
)
