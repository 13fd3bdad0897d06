"""A script's process: its output, its end."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from plat.trainer.script import process
from plat.trainer.script.process import Script


def run(tmp_path: Path, text: str) -> Script:
    script = Script([sys.executable, "-c", text], tmp_path, {})
    script.wait(30)
    script.wait_for_output()
    return script


def test_long_output_is_cut_in_the_log_and_still_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(process, "LARGEST_LOG", 1 << 20)
    script = run(tmp_path, "print('x' * 8_000_000); print('{\"a\": 1}'); print('y' * 100 + '\\n' * 10)")
    out = capsys.readouterr().out
    assert len(out) < (1 << 20) + process.CHUNK + 200 and "further output is left out" in out
    line = script.lines.get(timeout=5)
    assert line is not None and line[0] == b'{"a": 1}' and script.last == "y" * 100 and script.code == 0


def test_a_script_that_ignores_sigterm_is_killed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = "import signal, time; signal.signal(15, signal.SIG_IGN); print('{}', flush=True); time.sleep(60)"
    script = Script([sys.executable, "-c", text], tmp_path, {})
    assert script.lines.get(timeout=30) is not None
    script.end(0.2)
    assert script.code == -9 and "did not end within 0.2 s after SIGTERM" in capsys.readouterr().out
