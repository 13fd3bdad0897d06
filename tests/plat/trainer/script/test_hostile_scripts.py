"""Scripts that misbehave: each ends with one sentence, leaves nothing running, and never holds plat up."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from memory_io import MemoryIo

from plat.characters import forbidden_character
from plat.errors import RunError, SpecError
from plat.runner.failures import classify
from plat.trainer.script import process, train
from plat.trainer.script.config import ScriptConfig, ScriptRunConfig
from plat.trainer.script.spec import ScriptTrainer

GOOD = "print('{\"loss\": 1}', flush=True)\n"
ENDS: dict[str, tuple[str, str, str]] = {  # name -> the script, the failure class, what is said
    "no_metric": ("print('ERROR: no data')", "error", "logged no metric; its last line: ERROR: no data"),
    "exits": (GOOD + "import os; os._exit(7)", "error", "ended with exit code 7"),
    "killed": (GOOD + "import os; os.kill(os.getpid(), 9)", "node", "SIGKILL, sent from outside or by the kernel"),
    "signal": (GOOD + "import os; os.kill(os.getpid(), 40)", "error", "ended with signal 40"),
    "garbage": ("import os; os.write(1, bytes(range(256)) * 400); exit(3)", "error", "ended with exit code 3"),
    "backwards": (
        'print(\'{"step": 2, "a": 1}\\n{"step": 1, "a": 1}\', flush=True)\nimport time; time.sleep(60)',
        "error",
        "the script logged step 1 after step 2",
    ),
    "huge_step": ('print(\'{"step": 1e300, "a": 1}\')', "error", "step is 1e+300"),
    "hangs": ("import time; time.sleep(60)", "stalled", "no output and wrote no file for 0.4 s"),
    "closes": (GOOD + "import os, time; os.close(1); os.close(2); time.sleep(60)", "stalled", "no output and"),
    "deaf": ("import signal, time; signal.signal(15, signal.SIG_IGN); time.sleep(60)", "stalled", "no output and"),
    "endless": ("import time\nwhile True:\n    print('{}', flush=True); time.sleep(0.01)", "error", "ran after 1.5 s"),
    "floods": ("while True: print('{\"a\": 1}')", "error", "the script still ran after 1.5 s"),
}


Run = Callable[..., MemoryIo]


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """Run the text of a script in a folder, and return what it logged."""

    def train_it(text: str, command: str = "python hostile.py", **options: Any) -> MemoryIo:
        (tmp_path / "hostile.py").write_text(text)
        io: Any = MemoryIo(tmp_path / "files")
        script = ScriptConfig(command=command, folder=str(tmp_path), **{"grace": 0.2, **options})
        train.train(ScriptRunConfig(script=script), io)
        return io

    return train_it


def processes_in(folder: Path) -> list[str]:
    """Return the command lines of live processes whose current folder is this one."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and os.readlink(entry / "cwd") == str(folder):
                found.append((entry / "cmdline").read_text())
        except OSError:
            continue
    return found


@pytest.mark.parametrize("name", ENDS)
def test_a_hostile_script_ends_with_one_sentence(run: Run, tmp_path: Path, name: str) -> None:
    text, failure_class, says = ENDS[name]
    with pytest.raises(RunError) as error:
        run(text, timeout=1.5 if "ran after" in says else 0.0, stall=0.4 if failure_class == "stalled" else 60.0)
    outcome, reason = classify(error.value)
    assert (
        outcome == f"failed:{failure_class}"
        and says in reason
        and "fix: " in reason
        and forbidden_character(reason) is None
    )
    assert processes_in(tmp_path) == []


@pytest.mark.parametrize(
    ("first", "fix"),
    [
        ("#!/no/such/interpreter\n", "names an interpreter that is not here"),
        ("#!/bin/sh\r\ntrue\r\n", r"has the line ends of Windows: sed -i 's/\r$//' run.sh"),
        ("", "begin it with a line such as #!/bin/sh"),
        (None, "make the file executable"),
    ],
)
def test_a_program_that_the_system_refuses_is_named_with_advice(
    run: Run, tmp_path: Path, first: str | None, fix: str
) -> None:
    (tmp_path / "run.sh").write_text(first or "", newline="")
    (tmp_path / "run.sh").chmod(0o644 if first is None else 0o755)
    with pytest.raises(RunError, match=r"cannot start './run\.sh'") as error:
        run("", "./run.sh")
    assert fix in str(error.value.fix) and error.value.where == str(tmp_path)


def test_a_value_that_is_too_long_for_a_command_is_refused_with_a_way_on(run: Run) -> None:
    with pytest.raises(RunError, match="Argument list too long") as error:
        run("", ["/bin/echo", "x" * 200_000])
    assert "into a file" in str(error.value.fix) and "{plat.config}" in str(error.value.fix)


def test_strange_numbers_and_nested_objects_are_no_metrics(run: Run) -> None:
    text = 'print(\'{"a": NaN, "b": -Infinity, "c": 1\' + \'0\' * 400 + \', "d": {"e": [{}]}}\')\n'
    text += "print('{\"a\": 1' + '0' * 5000 + '}'); print('[' * 99999); print('{\"a\":' * 99999)\n"
    ((step, metrics),) = run(text).logged
    assert step == 1 and sorted(metrics) == ["a", "b"] and metrics["b"] == float("-inf")


def test_a_daemon_that_writes_for_ever_does_not_hold_the_run_up(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process, "DRAIN", 0.2)
    text = f"import os, time\nif os.fork() == 0:\n    for _ in range(300):\n        time.sleep(0.01); {GOOD}"
    io = run(GOOD + text)
    assert 1 <= len(io.logged) < 300


def test_new_files_are_a_sign_of_life(run: Run) -> None:
    text = (
        "import os, time\nos.chdir(os.environ['PLAT_RUN_DIR'])\nfor i in range(6): open(str(i), 'w'); time.sleep(0.3)\n"
    )
    assert run(text + GOOD, stall=1.0).logged == [(1, {"loss": 1.0})]


def test_a_full_disk_is_its_own_class_of_failure(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def write_text(path: Path, *_: Any) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))

    monkeypatch.setattr(Path, "write_text", lambda path, *rest: write_text(path) if path.suffix == ".json" else None)
    with pytest.raises(RunError) as error:
        run("")
    outcome, reason = classify(error.value)
    assert outcome == "failed:disk" and "cannot prepare the folder of the script's files: No space left" in reason


def test_metrics_outside_of_the_run_are_refused(tmp_path: Path) -> None:
    for name in ("../x.csv", "/tmp/x.csv", "a/../../x.csv"):
        config = ScriptRunConfig(script=ScriptConfig(command="true", folder=str(tmp_path), metrics=name))
        with pytest.raises(SpecError, match="is outside of PLAT_RUN_DIR"):
            ScriptTrainer().validate(config)


def test_output_is_read_while_a_script_that_was_asked_to_stop_ends(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    text = "import signal, sys, time\ndef end(*_):\n    for _ in range(40_000): print('{\"a\": 1}')\n    sys.exit()\n"
    text += "signal.signal(15, end)\nprint('{\"a\": 1}\\n' * 2, flush=True)\nwhile True: time.sleep(1)\n"
    monkeypatch.setattr(MemoryIo, "should_stop", lambda io: len(io.logged) > 0)
    assert len(run(text, grace=30.0).logged) == 40_002
