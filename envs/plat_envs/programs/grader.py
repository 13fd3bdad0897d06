"""Grade the programs of all episodes of a process, those that wait at the same time together.

A sandbox repeats a program that ran out of wall-clock time alone. That is only true while nothing else is graded, so
one batch is graded at a time. It uses all cores.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future
from functools import lru_cache
from threading import Lock

from plat_envs.environment_errors import BadEnvironment, ServiceError
from plat_envs.programs.problem import AnyTest, DeepCoderConfig
from plat_envs.sandbox.program import Grade, Limits, Program
from plat_envs.sandbox.sandbox import Sandbox

Job = tuple[Program, Sequence[AnyTest]]
FIX = "apt-get install bubblewrap, or name a grader: task.env.sandbox=remote task.env.grader=URL"
_STARTING = Lock()


class Grader:
    """The sandbox of a process.

    Raises BadEnvironment if its level cannot be had, or for `limits_only`, and ServiceError for a grader that is away.
    """

    def __init__(self, level: str | None, url: str | None, limits: Limits) -> None:
        try:
            self._sandbox = Sandbox(level, limits, url=url, for_language_model=True)
        except ServiceError:
            raise
        except BadEnvironment as error:
            raise BadEnvironment(error.what, where="task.env.sandbox", fix=FIX) from error
        self._waiting: list[tuple[Job, Future[Grade]]] = []
        self._of_list, self._of_sandbox = Lock(), Lock()

    def grade(self, program: Program, tests: Sequence[AnyTest]) -> Grade:
        """Grade a program by its tests. May be called in several threads at once.

        Raises BadEnvironment for a program without tests, or if the sandbox fails.
        """
        mine: Future[Grade] = Future()
        with self._of_list:
            self._waiting.append(((program, tests), mine))
        with self._of_sandbox:  # whoever comes first grades what waits by then
            if not mine.done():
                self._grade_waiting()
        return mine.result()

    def _grade_waiting(self) -> None:
        with self._of_list:
            batch, self._waiting = self._waiting, []
        try:
            grades = self._sandbox.grade_all([job for job, _ in batch])
        except BaseException as error:
            for _, future in batch:
                future.set_exception(error)
            return
        for (_, future), grade in zip(batch, grades, strict=True):
            future.set_result(grade)

    def provenance(self) -> dict[str, str | int]:
        """Return what a run records about its sandbox."""
        return self._sandbox.provenance()


@lru_cache(maxsize=8)
def _grader(level: str | None, url: str | None, limits: Limits) -> Grader:
    return Grader(level, url, limits)


def grader_of(config: DeepCoderConfig) -> Grader:
    """Return the grader of this process. Its level is tried once.

    Raises BadEnvironment if the level cannot be had, and ServiceError if a grader does not answer.
    """
    with _STARTING:
        return _grader(config.level, config.grader or None, config.limits)
