"""The tasks of the package reasoning-gym: one question, one answer, and the score that the package gives.

A process makes and scores the items, and is started again after a request that took too long.
"""

from __future__ import annotations

import atexit
import json
import os
import select
import subprocess
import sys
import threading
import time
from contextlib import closing
from dataclasses import dataclass
from hashlib import blake2b
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from plat_envs.api import EnvironmentSpec, Need
from plat_envs.environment_errors import BadEnvironment, ServiceError, check_range, one_of
from plat_envs.instances import SPLITS, source_split
from plat_envs.turns.episode import EpisodeConfig, PlainEpisode

# A process that makes and scores items for this one, and is started again after a request that took too long.

STARTING = 120.0  # for the first answer, which includes the import of the package [seconds]
PATIENCE = 20.0  # times the limit of processor time: other work on the machine must not change a score


class WorkerDied(Exception):
    """The process ended while it worked on a request."""


class WorkerProcess:
    """The process of `reasoning_gym_worker`, started at the first request. It ends with the last of its users."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._rest = b""
        self.users = 0

    def ask(self, request: dict[str, Any], seconds: float) -> dict[str, Any] | None:
        """Return the answer to a request; None if it takes more than `seconds` of processor time.

        A process that waits is given up after PATIENCE times as long. One that dies is started again and asked once
        more. Raises WorkerDied if it dies of the request.
        """
        with self._lock:
            try:
                return self._asked(request, seconds)
            except WorkerDied:  # perhaps it was killed before this request
                return self._asked(request, seconds)

    def _asked(self, request: dict[str, Any], seconds: float) -> dict[str, Any] | None:
        starting = self._process is None
        process = self._process or self._start()
        try:
            assert process.stdin is not None
            process.stdin.write(json.dumps(request).encode() + b"\n")
            process.stdin.flush()
            line = self._line(process, seconds + (STARTING if starting else 0.0))
        except (OSError, WorkerDied) as error:
            self._end()
            raise WorkerDied from error
        if line is None:
            self._end()
            return None
        answer: dict[str, Any] = json.loads(line)
        return answer

    def release(self) -> None:
        """Say that one user needs the process no more."""
        with self._lock:
            self.users -= 1
            if self.users == 0:
                self._end()

    def _start(self) -> subprocess.Popen[bytes]:
        self._rest = b""
        self._process = subprocess.Popen(
            [sys.executable, "-m", "plat_envs.questions.reasoning_gym_worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONHASHSEED": "0"},  # the order of sets decides some items
        )
        return self._process

    def _line(self, process: subprocess.Popen[bytes], seconds: float) -> bytes | None:
        """Return the next line of the process without its end; None if it takes too long. WorkerDied if it ends."""
        assert process.stdout is not None
        used, until = _processor_seconds(process.pid) + seconds, time.monotonic() + PATIENCE * seconds
        while b"\n" not in self._rest:
            ready, _, _ = select.select([process.stdout], [], [], 0.05)
            if ready:
                chunk = os.read(process.stdout.fileno(), 1 << 16)
                if not chunk:
                    raise WorkerDied
                self._rest += chunk
            elif _processor_seconds(process.pid) > used or time.monotonic() > until:
                return None
        line, _, self._rest = self._rest.partition(b"\n")
        return line

    def _end(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.communicate()
            self._process = None


def _processor_seconds(pid: int) -> float:
    """Return the processor time of a process so far."""
    with open(f"/proc/{pid}/stat", encoding="utf-8") as file:
        fields = file.read().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


_SHARED = WorkerProcess()
atexit.register(_SHARED._end)


def shared_worker() -> WorkerProcess:
    """Return the worker of this process, with one user more: call `release` when it is not needed any more."""
    _SHARED.users += 1
    return _SHARED


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
