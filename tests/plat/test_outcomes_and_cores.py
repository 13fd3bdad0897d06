"""The words for how runs end, and the number of cores that every part of plat counts with."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from plat import planning
from plat.cli.verbs import doctor
from plat.dispatch.local import local_dispatcher
from plat.processes import own_process
from plat.words.outcomes import failure_class, is_failure, is_result, is_stopped


@pytest.mark.parametrize(
    ("outcome", "result", "stopped", "failed"),
    [
        ("finished", True, False, None),
        ("stopped:low_success", True, True, None),
        ("stopped:pruned", False, False, None),
        ("failed:oom", False, False, "oom"),
        ("interrupted", False, False, None),
        ("cancelled", False, False, None),
        ("damaged", False, False, None),
        ("", False, False, None),
        (None, False, False, None),
    ],
)
def test_what_an_outcome_means(outcome, result, stopped, failed):
    assert (is_result(outcome), is_stopped(outcome), failure_class(outcome)) == (result, stopped, failed)
    assert is_failure(outcome) == (failed is not None)


@pytest.fixture
def quota_of_one_core(monkeypatch):
    """A control group (version 2) that grants one core of eight."""
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(8)))
    real = Path.read_text

    def read_text(path: Path, *arguments: object, **options: object) -> str:
        return "100000 100000\n" if str(path) == "/sys/fs/cgroup/cpu.max" else real(path, *arguments, **options)

    monkeypatch.setattr(Path, "read_text", read_text)


def test_planner_doctor_and_dispatcher_respect_a_cpu_quota(quota_of_one_core):
    assert own_process.usable_cores() == 1
    assert planning.usable_cores is own_process.usable_cores
    assert doctor.check_cores().says.startswith("1 (a CPU quota of 1), memory")
    assert local_dispatcher.usable_cores is own_process.usable_cores


def test_without_a_quota_the_affinity_counts(monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1, 2})
    monkeypatch.setattr(own_process, "cpu_quota", lambda: None)
    assert own_process.usable_cores() == 3
    monkeypatch.setattr(own_process, "cpu_quota", lambda: 0.25)
    assert own_process.usable_cores() == 1
