"""Grade 128 programs with 10 tests each at every level that this machine has, as a batch of a run does.

The reference is a start of Python for each test, without any sandbox: its processor time, divided by the cores.

    python benchmarks/bench_sandbox.py --programs 128 --tests 10
"""

from __future__ import annotations

import os
import sys

from measuring import best, cost, figure, options

from plat_envs.sandbox.levels import ORDER, problem_of
from plat_envs.sandbox.program import Program, Test
from plat_envs.sandbox.sandbox import Sandbox, Tests

SOURCE = """
import sys
from collections import Counter
words = sys.stdin.read().split()
print(Counter(words).most_common(1)[0][0], {number})
"""
AIM = 20.0  # seconds on two cores


def jobs(programs: int, tests: int) -> list[tuple[Program, Tests]]:
    """Return honest programs that read their input and import a little."""
    return [
        (Program(SOURCE.format(number=n)), [Test(f"{t} {t} x\n", f"{t} {n}\n") for t in range(tests)])
        for n in range(programs)
    ]


def main(arguments: list[str]) -> None:
    given = options(__doc__, programs=128, tests=10).parse_args(arguments)
    batch = jobs(given.programs, given.tests)
    cores = len(os.sched_getaffinity(0))
    start = min(cost([sys.executable, "-I", "-c", "pass"]).seconds for _ in range(10))
    reference = start * given.programs * given.tests / cores
    for level in ORDER:
        if level == "remote":
            continue
        if problem := problem_of(level):
            print(f"no {level}: {problem}")
            continue
        sandbox = Sandbox(level)
        seconds, grades = best(lambda sandbox=sandbox: sandbox.grade_all(batch), repeats=2)  # type: ignore[misc]
        assert all(grade.share == 1 for grade in grades)
        name = f"sandbox: {given.programs} programs x {given.tests} tests, {level}, {cores} cores"
        against = f"aim: {AIM:.0f} s; a start of Python for each test: {reference:.1f} s"
        figure(name, seconds, "s", against, ratio=reference / seconds, ok=seconds <= AIM)


if __name__ == "__main__":
    main(sys.argv[1:])
