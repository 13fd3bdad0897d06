"""The levels that this machine has, and the users as whom a test can run."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from plat_envs.sandbox import levels

ENVS = Path(__file__).resolve().parents[3] / "envs"
NOBODY = 65534


@pytest.fixture(params=["namespaces", "landlock"])
def level(request: pytest.FixtureRequest) -> str:
    """A level of this machine; the test is skipped where it cannot be had."""
    if problem := levels.problem_of(request.param):
        pytest.skip(f"no {request.param}: {problem}")
    return str(request.param)


def a_python_for_nobody() -> str | None:
    """An interpreter that a user without rights can start, and that finds the sandbox."""
    for name in (sys.executable, "/usr/bin/python3.12", "/usr/bin/python3.11", "/usr/bin/python3"):
        if (path := shutil.which(name)) and nobody_can(path):
            return path
    return None


def nobody_can(python: str) -> bool:
    check = "import sys, plat_envs.sandbox.sandbox; sys.exit(sys.version_info < (3, 11))"
    environment = {"PYTHONPATH": str(ENVS), "PYTHONDONTWRITEBYTECODE": "1"}
    ids = {"user": NOBODY, "group": NOBODY, "extra_groups": []}
    try:
        return (
            subprocess.run([python, "-c", check], env=environment, capture_output=True, cwd="/", **ids).returncode == 0
        )
    except OSError:
        return False


@pytest.fixture(params=["this user", "nobody"])
def user(request: pytest.FixtureRequest) -> tuple[str, dict[str, object]]:
    """An interpreter, and the options with which `subprocess` starts it as a user."""
    if request.param == "this user":
        return sys.executable, {}
    if os.geteuid() != 0:
        pytest.skip("only root can become another user")
    if (python := a_python_for_nobody()) is None:
        pytest.skip("no Python 3.11 that another user can start")
    return python, {"user": NOBODY, "group": NOBODY, "extra_groups": []}


@pytest.fixture(scope="session")
def plain_python() -> str:
    """An interpreter that everybody can start; the test is skipped where there is none, or for others than root."""
    if os.geteuid() != 0:
        pytest.skip("only root can give up its rights in several ways")
    if (python := a_python_for_nobody()) is None:
        pytest.skip("no Python 3.11 that another user can start")
    return python
