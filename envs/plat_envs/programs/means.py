"""What runs of `deepcoder` need of the machine: a level of the sandbox, and the files of real problems."""

from __future__ import annotations

from dataclasses import dataclass

from plat_envs.api import Need
from plat_envs.environment_errors import BadEnvironment
from plat_envs.hub_cache import dataset_need
from plat_envs.programs.config import DeepCoderConfig
from plat_envs.programs.grader import grader_of


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
