"""The door of the sandbox: run programs, and grade them by their tests, several at once."""

from __future__ import annotations

import json
import math
import os
import re
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from plat_envs.environment_errors import BadEnvironment
from plat_envs.sandbox import levels
from plat_envs.sandbox.box import Box
from plat_envs.sandbox.program import Call, Grade, Limits, Outcome, Program, Test

# Compare what a program wrote with what was expected. Only the parent does this, on bytes that it read itself.

NUMBER = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d{1,3})?", flags=re.ASCII)
LONGEST_NUMBER = 4000  # digits
# An equal value can be longer by white space, or by the digits of a float, but is not a flood that has to be parsed.
LONGER, ROOM = 16, 1024


def same_output(output: bytes, expected: str, tolerance: float | None = None) -> bool:
    """Return True if the lines agree, without white space at their ends and without empty lines at the end.

    With a tolerance, words that are plain decimal numbers may differ by that share, or by that much below 1.
    """
    try:
        ours, theirs = _lines(output.decode("utf-8")), _lines(expected)
    except UnicodeDecodeError:
        return False
    if tolerance is None or ours == theirs:
        return ours == theirs
    if len(ours) != len(theirs):
        return False
    return all(_near_words(ours[i].split(), theirs[i].split(), tolerance) for i in range(len(ours)))


def _lines(text: str) -> list[str]:
    lines = [line.rstrip(" \t\r") for line in text.split("\n")]  # not splitlines: other characters end no line
    while lines and not lines[-1]:
        lines.pop()
    return lines


def _near_words(ours: list[str], theirs: list[str], tolerance: float) -> bool:
    return len(ours) == len(theirs) and all(
        one == other or (_is_number(one) and _is_number(other) and _near(float(one), float(other), tolerance))
        for one, other in zip(ours, theirs, strict=True)
    )


def _is_number(word: str) -> bool:
    return len(word) < LONGEST_NUMBER and NUMBER.fullmatch(word) is not None


def _near(one: float, other: float, tolerance: float) -> bool:
    return math.isfinite(one) and math.isfinite(other) and abs(one - other) <= tolerance * max(1.0, abs(other))


def same_value(output: bytes, expected: Any, tolerance: float | None = None) -> bool:
    """Return True if the output is one JSON document that equals the expected value; True is not 1.

    Raises BadEnvironment if the expected value is no value of JSON.
    """
    try:
        text = json.dumps(expected, allow_nan=False).encode()
        wanted = parse(text)
    except (ValueError, TypeError, RecursionError) as error:
        raise BadEnvironment(f"an expected value is no JSON: {error}", fix="mend the problem's tests") from error
    if len(output) > LONGER * len(text) + ROOM:
        return False
    try:
        return _equal(parse(output), wanted, tolerance)
    except (ValueError, RecursionError):
        return False


def parse(text: bytes) -> Any:
    """Return the value of a JSON document.

    Raises ValueError for NaN, infinities, long numbers and twice the same key, and RecursionError for a deep value.
    """
    options: dict[str, Any] = {"parse_constant": _refuse, "parse_int": _integer, "parse_float": _float}
    return json.loads(text.decode("utf-8"), object_pairs_hook=_object, **options)


def _refuse(text: str) -> Any:
    raise ValueError(f"{text} is no number")


def _integer(text: str) -> int:
    if len(text) > LONGEST_NUMBER:
        raise ValueError("too many digits")
    return int(text)


def _float(text: str) -> float:
    if not math.isfinite(value := float(text)):
        raise ValueError("too large a number")
    return value


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len({key for key, _ in pairs}) < len(pairs):
        raise ValueError("a key comes twice")
    return dict(pairs)


def _equal(one: Any, other: Any, tolerance: float | None) -> bool:
    """Compare values that `parse` made. A whole number equals a float of the same value, but a bool equals neither."""
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    if isinstance(one, int | float) and isinstance(other, int | float):
        if one == other or tolerance is None:
            return one == other
        try:
            return _near(float(one), float(other), tolerance)
        except OverflowError:
            return False
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(_equal(a, b, tolerance) for a, b in zip(one, other, strict=True))
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(_equal(one[key], other[key], tolerance) for key in one)
    return type(one) is type(other) and bool(one == other)


Tests = Sequence[Test | Call]
Job = tuple[Program, Sequence[bytes]]
FIX = "mend the problem's tests"
SLEEPS = 0.1  # share of the wall-clock time below which a program that hangs does not use the processor
MOST_SLEEPERS = 32  # such programs at once


class Sandbox:
    """Programs in boxes of one level.

    Raises BadEnvironment if the level cannot be had, and ServiceError if a grader does not answer.

    level               by default the first one that this machine has: namespaces, landlock, remote
    limits              of each test
    url                 of the grader, for the level `remote`
    for_language_model  refuse `limits_only`
    workers             programs at once; by default one for each core
    """

    def __init__(
        self,
        level: str | None = None,
        limits: Limits | None = None,
        *,
        url: str | None = None,
        for_language_model: bool = False,
        workers: int | None = None,
    ) -> None:
        self.level = levels.choose(level, url, for_language_model=for_language_model)
        self.limits = limits or Limits()
        self._url = url
        self._workers = workers or len(os.sched_getaffinity(0))

    def provenance(self) -> dict[str, str | int]:
        """Return what a run records about its sandbox."""
        return levels.provenance(self.level, self._url)

    def run(self, program: Program, stdins: Sequence[str]) -> list[Outcome]:
        """Run a program once for each input; of a function, an input is the JSON list of its arguments.

        Raises BadEnvironment for an input that cannot be written as UTF-8.
        """
        return self._run_all([(program, [_bytes(stdin, f"input {at}") for at, stdin in enumerate(stdins)])])[0]

    def grade(self, program: Program, tests: Tests) -> Grade:
        """Grade one program, as `grade_all` does.

        Raises BadEnvironment for no tests, tests of the other kind, or one that cannot be given to a program.
        """
        return self.grade_all([(program, tests)])[0]

    def grade_all(self, jobs: Sequence[tuple[Program, Tests]]) -> list[Grade]:
        """Grade programs by their tests, several at once.

        A test passes if the program ends with exit code 0 within its limits, and its output is the expected one.
        Raises BadEnvironment for a program without tests, or with tests of the other kind, or for a test that cannot
        be given to a program.
        """
        for number, (program, tests) in enumerate(jobs):
            if not tests:
                raise BadEnvironment(f"program {number} has no tests", fix="a program without tests cannot be graded")
            if any(isinstance(test, Call) != (program.function is not None) for test in tests):
                fix = "a program with `function` needs tests of the class Call, another one those of the class Test"
                raise BadEnvironment(f"the tests of program {number} are of the other kind", fix=fix)
        inputs = [
            [_input(test, f"program {number}, test {at}") for at, test in enumerate(tests)]
            for number, (_, tests) in enumerate(jobs)
        ]
        runs = self._run_all([(program, given) for (program, _), given in zip(jobs, inputs, strict=True)])
        return [Grade(_passed(tests, outcomes), outcomes) for (_, tests), outcomes in zip(jobs, runs, strict=True)]

    def _run_all(self, jobs: Sequence[Job]) -> list[list[Outcome]]:
        """Run jobs, several at once; then, alone, what ran out of wall-clock time, as load may be the reason."""
        runs: list[list[Outcome]] = [[] for _ in jobs]
        self._share(jobs, runs, range(len(jobs)), self._workers)
        firsts = {number: outcomes.pop() for number, outcomes in enumerate(runs) if outcomes and _hangs(outcomes[-1])}
        # Those that sleep use no processor, so they do not slow each other down.
        asleep = [number for number, first in firsts.items() if first.cpu_seconds < SLEEPS * first.wall_seconds]
        self._share(jobs, runs, asleep, MOST_SLEEPERS)
        self._share(jobs, runs, [number for number in firsts if number not in asleep], 1)
        for number, first in firsts.items():
            # It hangs without load, too. Its other tests would only take the same time.
            outcomes = runs[number]
            outcomes += [outcomes[-1] if outcomes else first] * (len(jobs[number][1]) - len(outcomes))
        return runs

    def _share(self, jobs: Sequence[Job], runs: list[list[Outcome]], numbers: Sequence[int], workers: int) -> None:
        """Run what is left of these jobs, at most `workers` at once. An error or Ctrl-C ends all of them at once."""
        left = iter(numbers)  # the workers share it
        boxes: list[Any] = []
        with ThreadPoolExecutor(max(1, workers)) as pool:
            works = [pool.submit(self._work, jobs, runs, left, boxes) for _ in range(min(workers, len(numbers)))]
            try:
                for work in works:
                    work.result()
            except BaseException:
                list(left)  # the other workers find nothing more to do
                for box in boxes:
                    if isinstance(box, Box):
                        box.interrupt()
                raise

    def _work(self, jobs: Sequence[Job], runs: list[list[Outcome]], numbers: Iterator[int], boxes: list[Any]) -> None:
        """Run what is left of jobs in one box, each up to the first test that runs out of wall-clock time."""
        with levels.open_box(self.level, self.limits, self._url) as box:
            boxes.append(box)
            for number in numbers:
                program, stdins = jobs[number]
                outcomes = runs[number]
                for outcome in box.run_each(program, stdins[len(outcomes) :]):
                    outcomes.append(outcome)
                    if _hangs(outcome):
                        break


def _hangs(outcome: Outcome) -> bool:
    return outcome.status == "wall"


def _bytes(text: str, where: str) -> bytes:
    try:
        return text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError as error:
        raise BadEnvironment(f"stdin is no text: {error}", where=where, fix=FIX) from error


def _input(test: Test | Call, where: str) -> bytes:
    if isinstance(test, Test):
        return _bytes(test.stdin, where)
    try:
        return json.dumps(test.arguments, allow_nan=False).encode()
    except (ValueError, TypeError, RecursionError) as error:
        raise BadEnvironment(f"arguments are no JSON: {error}", where=where, fix=FIX) from error


def _passed(tests: Tests, outcomes: list[Outcome]) -> list[bool]:
    return [_passes(test, outcome) for test, outcome in zip(tests, outcomes, strict=True)]


def _passes(test: Test | Call, outcome: Outcome) -> bool:
    if outcome.status != "ok" or outcome.exit_code != 0:
        return False
    if isinstance(test, Call):
        return same_value(outcome.stdout, test.expected, test.tolerance)
    return same_output(outcome.stdout, test.expected, test.tolerance)
