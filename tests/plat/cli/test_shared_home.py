"""A home that two users of one group share: each goes on where the other was, and nothing is left that one cannot use.

The users have numbers and no names. They may read every file, because the interpreter may lie in root's folder; what
they may write is decided by the rights of the files, and which files the group may read is checked by these.
"""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(os.geteuid() != 0 or shutil.which("setpriv") is None, reason="needs root and setpriv"),
]
TOY = Path(__file__).parents[2] / "toy"
GROUP, FIRST, SECOND = 61000, 61001, 61002
WALKS = """\
title: Random walks
base: {trainer: "plat_toy:Toy"}
matrix: {train.iterations: [4, 5], seed: [0, 1]}
report: [{builder: metric_table, metrics: [success], rows: train.iterations, columns: seed}]
"""
SEARCH = """\
title: A toy search
base: {trainer: "plat_toy:Toy"}
space: {train.iterations: {int: [3, 8]}}
objectives: [{maximize: success, of: best}]
sampler: random
trials: 2
seeds: [0]
"""


def read_only(command):
    """A command that may read every file, whoever gives it."""
    return ["--inh-caps=+dac_read_search", "--ambient-caps=+dac_read_search", *command]


def plat_of(user, folder, *arguments, code=0):
    """What a user of the group gets from plat, under a umask that lets the group write."""
    command = ["setpriv", f"--reuid={user}", f"--regid={GROUP}", "--clear-groups"]
    command += read_only([sys.executable, "-m", "plat", *arguments])
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("PLAT_", "MLFLOW_"))}
    environment |= {"HOME": str(folder / str(user)), "LOGNAME": f"user{user}", "PYTHONPATH": str(TOY)}
    environment |= {"PLAT_HOME": str(folder / "home"), "PLAT_ALLOW_IMPORT": "1"}
    done = subprocess.run(
        command, env=environment, cwd=folder, capture_output=True, text=True, timeout=300, umask=0o002
    )
    assert done.returncode == code and "Traceback" not in done.stdout + done.stderr, done.stdout + done.stderr
    return done.stdout


def closed(home):
    """The files and folders of a home that the group cannot use."""
    found = []
    for path in [home, *home.rglob("*")]:
        status = path.lstat()
        wanted = stat.S_IRWXG if stat.S_ISDIR(status.st_mode) else stat.S_IRGRP
        if status.st_gid != GROUP or status.st_mode & wanted != wanted:
            found.append(f"{stat.filemode(status.st_mode)} {path.relative_to(home)}")
    return found


def without_paths(report):
    assert "report: " in report, report
    return report[: report.index("report: ")]


@pytest.fixture
def place():
    """A folder that every user can get to; pytest's own are root's alone."""
    with tempfile.TemporaryDirectory(prefix="plat-shared-") as folder:
        os.chmod(folder, 0o777)
        yield Path(folder)


def test_two_users_share_a_home(place):
    (place / "home").mkdir()
    os.chown(place / "home", FIRST, GROUP)
    os.chmod(place / "home", 0o2775)
    for user in (FIRST, SECOND):
        (place / str(user)).mkdir()
        os.chown(place / str(user), user, GROUP)
    (place / "walks.yaml").write_text(WALKS.replace("[4, 5]", "[4]"))
    (place / "search.yaml").write_text(SEARCH)
    plat_of(FIRST, place, "sweep", "walks.yaml", "--jobs", "1")
    plat_of(FIRST, place, "tune", "search.yaml", "--jobs", "1")
    assert not closed(place / "home")
    (place / "walks.yaml").write_text(WALKS)
    assert "2 done" in plat_of(SECOND, place, "status", "walks.yaml")
    plat_of(SECOND, place, "sweep", "walks.yaml", "--jobs", "1")
    plat_of(SECOND, place, "tune", "search.yaml", "--jobs", "1", "trials=3")
    assert not closed(place / "home")
    reports = [without_paths(plat_of(user, place, "report", "walks.yaml")) for user in (FIRST, SECOND)]
    assert reports[0] == reports[1] and "—" not in reports[0]
    run = next((place / "home/runs").glob("*/*")).name
    for user in (FIRST, SECOND):
        plat_of(user, place, "why", run)
        plat_of(user, place, "gc")
    plat_of(SECOND, place, "export", "walks.yaml", "--out", str(place / "bundle"))
