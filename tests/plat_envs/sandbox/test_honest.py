"""Odd but honest programs pass at every level, and a wrong answer of theirs does not."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hostile_corpus import honest

from plat_envs.sandbox.levels import problem_of
from plat_envs.sandbox.program import Program, Test, unfence
from plat_envs.sandbox.sandbox import Sandbox

PROGRAMS = honest()


def test_there_are_enough():
    assert len(PROGRAMS) >= 30


def test_odd_honest_programs_pass(level):
    grades = Sandbox(level).grade_all([(program, [test]) for program, test in PROGRAMS.values()])
    failed = {name: grade.outcomes for name, grade in zip(PROGRAMS, grades, strict=True) if not all(grade.passed)}
    assert not failed


def test_the_same_programs_fail_another_answer(level):
    jobs = [(program, [replace(test, expected="another")]) for program, test in PROGRAMS.values()]
    assert not any(any(grade.passed) for grade in Sandbox(level).grade_all(jobs))


@pytest.mark.skipif(bool(problem_of("namespaces")), reason="bubblewrap cannot be used here")
def test_a_box_of_its_own_has_an_empty_folder_for_each_test():
    sandbox = Sandbox("namespaces")
    source = "import os\nprint(os.listdir('.'), os.getcwd())\nopen('kept', 'w').write('x')\nprint(open('kept').read())"
    assert sandbox.grade(Program(source), [Test("", "[] /tmp\nx")] * 3).passed == [True] * 3


@pytest.mark.parametrize(
    ("text", "source"),
    [
        ("print(1)", "print(1)"),
        ("```python\nprint(1)\n```", "print(1)\n"),
        ("First:\n```\nprint(0)\n```\nbetter:\n```py\nprint(1)\n```\nDone.", "print(1)\n"),
        ("~~~python3\nprint(1)\n~~~", "print(1)\n"),
        ("````python\ntext = '''\n```\n'''\n````", "text = '''\n```\n'''\n"),
        ("```python\nprint(1)", "```python\nprint(1)"),
    ],
)
def test_unfence_takes_the_last_block(text, source):
    assert unfence(text) == source
