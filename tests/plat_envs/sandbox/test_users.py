"""The user as whom root runs a program."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from plat_envs.sandbox import box

ENVS = Path(__file__).resolve().parents[3] / "envs"


@pytest.mark.parametrize(
    ("table", "lowest", "highest"),
    [
        ("         0          0 4294967295\n", 1 << 30, 1 << 31),
        ("0 100000 65536\n", 1 << 15, 65000),
        ("0 1000 1\n1 100000 65536\n", 1 << 15, 65000),
    ],
)
def test_it_exists_and_is_nobody_real(tmp_path, monkeypatch, table, lowest, highest):
    (tmp_path / "map").write_text(table)
    monkeypatch.setattr(box, "Path", lambda _: tmp_path / "map")
    drawn = {box.one_of_its_own() for _ in range(50)}
    assert all(user is not None and lowest <= user < highest for user in drawn) and len(drawn) > 10


@pytest.mark.parametrize("table", ["0 1000 1\n", "0 0 1\n5 5 100000\n"])
def test_there_may_be_root_alone(tmp_path, monkeypatch, table):
    (tmp_path / "map").write_text(table)
    monkeypatch.setattr(box, "Path", lambda _: tmp_path / "map")
    assert box.one_of_its_own() is None


# What root is in a container: without most rights, or in a user namespace where it is alone.
KINDS_OF_ROOT = {
    "with the rights of a container": [
        "setpriv", "--inh-caps=-all", "--bounding-set=-all,+setuid,+setgid,+kill,+setpcap,+dac_override"
    ],
    "without any right": ["setpriv", "--inh-caps=-all", "--bounding-set=-all"],
    "alone in a namespace": ["unshare", "-r"],
}  # fmt: skip
CHECK = """
import json
from plat_envs.sandbox.levels import ORDER, problem_of
from plat_envs.sandbox.sandbox import Program, Sandbox, Test
found = {name: problem_of(name) for name in ORDER}
passed = [Sandbox(name).grade(Program("print(input())"), [Test("a", "a")]).passed for name in ORDER if not found[name]]
print(json.dumps([found, passed]))
"""


@pytest.mark.parametrize("kind", KINDS_OF_ROOT)
def test_root_with_fewer_rights_has_a_level(plain_python, kind):
    command = KINDS_OF_ROOT[kind]
    if shutil.which(command[0]) is None:
        pytest.skip(f"no {command[0]}")
    environment = {**os.environ, "PYTHONPATH": str(ENVS), "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(
        [*command, plain_python, "-c", CHECK], env=environment, cwd="/", capture_output=True, text=True
    )
    if done.returncode and "unshare failed" in done.stderr:
        pytest.skip(done.stderr.strip())
    problems, passed = json.loads(done.stdout)
    assert problems["landlock"] is None or "Landlock cannot be used" in problems["landlock"]
    assert passed and passed == [[True]] * len(passed)
