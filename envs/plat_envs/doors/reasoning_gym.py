"""The tasks of the package reasoning-gym: one question, one answer, and the score that the package gives.

`task=reasoning_gym task.env.dataset=NAME`. All items are made and scored in a process of their own (`worker`), so that
the random numbers of this process do not change, and a score that takes too long ends. Chat rendering only.
"""

from __future__ import annotations

import json
from contextlib import closing
from dataclasses import dataclass
from hashlib import blake2b
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from plat_envs.api import EnvironmentSpec, Need
from plat_envs.doors.worker_process import WorkerDied, WorkerProcess, shared_worker
from plat_envs.environment_errors import BadEnvironment, ServiceError, check_range, one_of
from plat_envs.instances import SPLITS, source_split
from plat_envs.turns.episode import EpisodeConfig, PlainEpisode

PACKAGE, INSTALL = "reasoning-gym", "pip install 'plat[reasoning-gym]'"
RANGE = 1 << 28  # items of each split
MAKING = 30.0  # of processor time for an item, at most [seconds]


@dataclass(frozen=True)
class ReasoningGymConfig(EpisodeConfig):
    turns: int = 1  # answers to a question [turns]
    actions_per_turn: int = 1  # the answer is never cut [actions]
    dataset: str = "chain_sum"  # its name in reasoning-gym
    options: str = ""  # of the dataset, as a JSON object, e.g. {"min_terms": 2}
    threshold: float = 1.0  # an answer with this score or more is a success
    seconds: float = 5.0  # of processor time for a score; one that takes longer is 0 [seconds]

    def __post_init__(self) -> None:
        super().__post_init__()
        check_range("actions_per_turn", self.actions_per_turn, 1, 1)
        check_range("threshold", self.threshold, 0.0, 1.0)
        check_range("seconds", self.seconds, 0.1, 600.0)
        try:
            options = json.loads(self.options or "{}")
        except (ValueError, RecursionError):
            options = None
        if not isinstance(options, dict):
            raise BadEnvironment(
                f"reasoning_gym: options is {self.options[:80]!r}",
                fix='a JSON object, e.g. {"min_terms": 2}; or leave it out',
            )


def item_of(split: str, seed: int) -> int:
    """Return the number of the item of (split, seed). The numbers of two splits never meet."""
    place = int.from_bytes(blake2b(f"{split}/{seed}".encode(), digest_size=8).digest()) % RANGE
    return SPLITS.index(split) * RANGE + place


class ReasoningGym(PlainEpisode):
    task = "reasoning_gym"
    rules = "You solve a puzzle. Reason step by step, and give the final answer alone in the answer section."
    config: ReasoningGymConfig

    def __init__(self, config: ReasoningGymConfig, split: str, rendering: str) -> None:
        super().__init__(config, split, rendering)
        self._worker: WorkerProcess | None = shared_worker()
        self._item: dict[str, Any] = {}

    def _load(self, seed: int, noise: int) -> None:
        number = item_of(source_split(self.split, self.config.shared_pool), seed)
        self._item = {"dataset": self.config.dataset, "options": self.config.options, "number": number}
        try:
            question = self._ask({"do": "make", **self._item}, MAKING)
        except WorkerDied:
            what = f"reasoning_gym: the process that makes items of {self.config.dataset} dies"
            raise ServiceError(what, fix="free memory, or another dataset") from None
        if question is None:
            what = f"reasoning_gym: an item of {self.config.dataset} takes more than {MAKING:g} s"
            raise BadEnvironment(what, where="task.env.options", fix="smaller options, or another dataset")
        self.question = str(question)

    def _ask(self, request: dict[str, Any], seconds: float) -> Any:
        """Return the answer of the worker, None after `seconds`.

        Raises BadEnvironment for what the worker refuses, and WorkerDied.
        """
        assert self._worker is not None, "the session is closed"
        answer = self._worker.ask(request, seconds)
        if answer is None or "value" in answer:
            return None if answer is None else answer["value"]
        kind, what = answer["kind"], answer["what"]
        if kind == "package":
            raise BadEnvironment(f"reasoning_gym needs a package that is not installed: {PACKAGE}", fix=INSTALL)
        if kind == "dataset":
            raise BadEnvironment(
                f"reasoning_gym has no dataset {self.config.dataset!r}",
                fix=one_of(self.config.dataset, answer["known"]),
            )
        raise BadEnvironment(
            f"reasoning_gym: {self.config.dataset}: {what}",
            where="task.env.options",
            fix=answer["fix"],
        )

    @property
    def problem(self) -> str:
        return blake2b(self.question.encode(), digest_size=16).hexdigest()

    def _read(self, answer: str) -> tuple[list[str], bool]:
        return ([answer], True) if answer else ([], False)

    def _play(self, action: str) -> tuple[float, bool, bool]:
        try:
            score = self._ask({"do": "score", **self._item, "answer": action}, self.config.seconds)
        except WorkerDied:  # of this answer, twice: it earns nothing
            score = 0.0
        self.success = score is not None and score >= self.config.threshold
        return float(score or 0.0), True, self.success

    def _chat(self) -> str:
        return self.question

    def close(self) -> None:
        if self._worker is not None:
            self._worker.release()
            self._worker = None


def _fingerprint(config: ReasoningGymConfig) -> dict[str, str]:
    try:
        return {PACKAGE: version(PACKAGE)}
    except PackageNotFoundError:
        raise BadEnvironment(f"reasoning_gym needs a package that is not installed: {PACKAGE}", fix=INSTALL) from None


def _needs(config: ReasoningGymConfig) -> list[Need]:
    """Return the package as a need, and make an item. Raises BadEnvironment for an unknown dataset or wrong options."""
    try:
        package = Need(f"the package {PACKAGE} {version(PACKAGE)}")
    except PackageNotFoundError:
        return [Need(f"the package {PACKAGE}", "it is not installed", INSTALL)]
    with closing(ReasoningGym(config, "train", "chat")) as environment:
        environment.reset(0)
    return [package]


SPEC = EnvironmentSpec(
    name="reasoning_gym",
    config_type=ReasoningGymConfig,
    make=ReasoningGym,
    version="1",
    fingerprint=_fingerprint,
    countable=lambda config: False,
    needs=_needs,
    renderings=("chat",),
)
