"""Programs that cheat, spy, take too much or reach outside: each earns nothing and leaves nothing.

The quick test runs most of them at once. `make test-sandbox` runs each alone, followed by an honest program.
"""

from __future__ import annotations

import json
import secrets
import subprocess
import sys
from pathlib import Path

import pytest
from hostile_corpus import hostile

SCRIPT = Path(__file__).with_name("hostile_corpus.py")
ENVS = Path(__file__).resolve().parents[3] / "envs"
ENTRIES = hostile()
GROUPS = ("1_verdict", "2_reading", "3_resources", "4_outside")
# Of those that take their time, a few; the others end at once.
CHOSEN = (
    "33 endless loop that catches everything",
    "34 stops itself",
    "35 endless output from threads",
    "36 endless output on stderr",
    "37 memory",
    "38 a big text",
    "39 many files that fill the disk",
    "40 many folders",
    "41 crashes",
    "42 fork bomb",
    "42 processes by subprocess and multiprocessing",
    "43 thread bomb that catches errors",
    "45 a grandchild holds the pipe open",
    "51 raises its limits",
)
SLOW = [key for key, entry in ENTRIES.items() if entry.group == "3_resources" or entry.kind == 51]
QUICK = [key for key in ENTRIES if key in CHOSEN or key not in SLOW]


def grade(how: str, level: str, user: tuple[str, dict[str, object]], keys: list[str]) -> dict[str, list[str]]:
    """What went wrong with programs, graded by a process of its own that has secrets."""
    python, options = user
    secret = f"secret-{secrets.token_hex(8)}"
    environment = {
        "PYTHONPATH": str(ENVS),
        "PYTHONDONTWRITEBYTECODE": "1",
        "PATH": "/usr/bin:/bin",
        "PLAT_SECRET": secret,
    }
    done = subprocess.run(
        [python, str(SCRIPT), how, level, secret],
        input=json.dumps(keys),
        capture_output=True,
        text=True,
        env=environment,
        cwd="/",
        timeout=1200,
        **options,  # type: ignore[call-overload]
    )
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert set(keys) <= set(report)
    return {key: wrongs for key, wrongs in report.items() if wrongs}


def test_the_tables_hold_every_kind():
    assert {entry.kind for entry in ENTRIES.values()} == set(range(1, 53))
    assert {entry.group for entry in ENTRIES.values()} == set(GROUPS) and len(ENTRIES) >= 150
    assert set(CHOSEN) <= set(ENTRIES)


def test_hostile_programs_earn_nothing(level, user):
    keys = QUICK if user[0] == sys.executable and not user[1] else QUICK[::4]
    assert grade("together", level, user, keys) == {}


def test_the_test_sees_a_program_that_gets_through(user):
    """Without a box they manage what they try, so the tests here can fail."""
    keys = ["26 a planted file", "46 TCP", "47 an abstract Unix socket", "28 a symbolic link out of the box"]
    assert set(grade("together", "limits_only", user, keys)) == set(keys)


@pytest.mark.sandbox
@pytest.mark.parametrize("group", GROUPS)
def test_each_hostile_program_alone(level, user, group):
    keys = [key for key, entry in ENTRIES.items() if entry.group == group]
    assert grade("each", level, user, keys) == {}
