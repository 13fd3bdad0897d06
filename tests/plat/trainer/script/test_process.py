"""A script's process: its output, its end."""

from __future__ import annotations

import errno
import sys
import threading
from pathlib import Path
from types import SimpleNamespace

import pytest
from sweep_processes import wait_for

from plat.trainer.script import process
from plat.trainer.script.process import Script


def run(tmp_path: Path, text: str) -> tuple[Script, list[bytes]]:
    """Run a script to its end; return it and the lines of its output that may be JSON objects."""
    script, lines = Script([sys.executable, "-c", text], tmp_path, {}), []
    while script.code is None:
        lines += [line.text for line in script.output(0.1)]
    return script, lines + [line.text for line in script.rest_of_output()]


def test_long_output_is_cut_in_the_log_and_still_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(process, "LARGEST_LOG", 1 << 20)
    script, lines = run(tmp_path, "print('x' * 8_000_000); print('{\"a\": 1}'); print('y' * 100 + '\\n' * 10)")
    out = capsys.readouterr().out
    assert len(out) < (1 << 20) + process.CHUNK + 200 and "further output is left out" in out
    assert lines == [b'{"a": 1}'] and script.last == "y" * 100 and script.code == 0


def test_all_lines_of_a_script_that_ends_at_once_are_read(tmp_path: Path) -> None:
    assert len(run(tmp_path, "print('{}\\n' * 50_000)")[1]) == 50_000


def test_an_object_after_a_progress_bar_is_a_line_and_the_rest_of_a_long_line_is_none(tmp_path: Path) -> None:
    text = "print('\\r 9% |\\r 10% |{\"a\": 1}\\n  {\"b\": 2}\\nx {\"c\": 3}'); print('{' * 3_000_000 + 'z')"
    script, lines = run(tmp_path, text + "; print('{' * 9)")
    assert lines[:3] == [b'10% |{"a": 1}', b'{"b": 2}', b'x {"c": 3}'] and lines[4:] == [b"{" * 9]
    assert lines[3] == b"..." + b"{" * (len(lines[3]) - 4) + b"z" and script.last == "{" * 9


def test_garbage_in_the_last_line_is_spelled_out(tmp_path: Path) -> None:
    text = "import os; os.write(1, bytes(range(14, 256)) * 9 + b'\\nnot \\x1b[31mred \\x07\\xff')"
    script, lines = run(tmp_path, text)
    assert script.last == "not red \\x07\ufffd" and len(lines) == 1


def test_a_full_disk_does_not_hold_the_script_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def write(text: str) -> None:
        raise OSError(errno.ENOSPC, text[:9])

    monkeypatch.setattr(sys, "stdout", SimpleNamespace(write=write, flush=print, closed=False))
    script, lines = run(tmp_path, "print('x' * 1_000_000); print('{}')")
    assert script.code == 0 and lines == [b"{}"]


DAEMON = """
import os, time
if os.fork():
    os._exit(0)
end = time.monotonic() + 60
while time.monotonic() < end:
    os.write(1, b'{"a": 1}\\n' * 5_000)
"""


def test_a_daemon_that_goes_on_writing_keeps_nothing_of_this_process_and_writes_into_no_other_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = threading.active_count()
    with open(tmp_path / "own.txt", "w") as own, open(tmp_path / "next.txt", "w") as following:
        monkeypatch.setattr(sys, "stdout", own)
        script, _ = run(tmp_path, DAEMON)
        script.close()
        monkeypatch.setattr(sys, "stdout", following)
        own.close()
        wait_for(lambda: threading.active_count() == before)
    assert (tmp_path / "own.txt").stat().st_size > 0 and (tmp_path / "next.txt").stat().st_size == 0


def test_killing_a_script_ends_its_group(tmp_path: Path) -> None:
    text = "import signal, subprocess, time; signal.signal(15, signal.SIG_IGN); subprocess.Popen(['sleep', '60']); "
    script = Script([sys.executable, "-c", text + "print('{}', flush=True); time.sleep(60)"], tmp_path, {})
    assert [line.text for line in script.output(30) if not script.kill()] == [b"{}"]
    assert script.code == -9 and list(script.rest_of_output()) == []
