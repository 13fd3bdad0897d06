"""The specification of the environment `deepcoder`."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from plat_envs.api import EnvironmentSpec, Need
from plat_envs.data import dataset_need, fingerprint
from plat_envs.environment_errors import BadEnvironment
from plat_envs.programs.chat import grader_of
from plat_envs.programs.compact import CompactCoder
from plat_envs.programs.problem import DeepCoderConfig
from plat_envs.programs.published import is_countable, published_problem
from plat_envs.turns.episode import Episode

# What runs of `deepcoder` need of the machine: a level of the sandbox, and the files of real problems.


@dataclass(frozen=True)
class SandboxMeans:
    """The sandbox of the chat rendering (`plat_envs.api.Means`)."""

    config: DeepCoderConfig

    def need(self) -> Need:
        """Return the level of the sandbox, or why it cannot be had and what mends that."""
        what = f"a sandbox of level {self.config.sandbox}{self.config.grader and f' at {self.config.grader}'}"
        try:
            level = grader_of(self.config).provenance()["level"]
        except BadEnvironment as error:
            return Need(what, error.what, error.fix or "")
        return Need(what if self.config.level else f"a sandbox (level {level})")

    def facts(self) -> dict[str, str | int]:
        """Try the sandbox, and return its level and the versions that decide how programs run.

        Raises BadEnvironment if the level cannot be had, and ServiceError if a grader does not answer.
        """
        facts = grader_of(self.config).provenance()
        return {f"sandbox_{name}": value for name, value in facts.items() if name != "kernel"}


def means(config: DeepCoderConfig, rendering: str) -> SandboxMeans | None:
    """Return the sandbox of the chat rendering; the compact one runs no program."""
    return SandboxMeans(config) if rendering == "chat" else None


def needs(config: DeepCoderConfig) -> list[Need]:
    """Return the file or the dataset of real problems."""
    if config.data == "generated":
        return []
    if config.data == "hub":
        return [dataset_need(config.dataset)]
    return [Need(f"the problems in {config.path}")]  # a file that is not there has no run


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
