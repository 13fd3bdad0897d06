"""The folder of a report is replaced at once, by a process that may be killed at any moment."""

import os
import signal
import subprocess
import sys

import pytest

from plat.errors import HomeError
from plat.store.disk.durable import replace_report

WRITER = """
import itertools, sys
from pathlib import Path
from plat.store.disk.durable import replace_report

folder = Path(sys.argv[1])

def write(scratch, text):
    scratch.mkdir()
    for name in "abcdef":
        (scratch / name).write_text(text)
    return {name: scratch / name for name in "abcdef"}

for number in itertools.count():
    replace_report(lambda scratch: write(scratch, str(number)), folder)
    print(number, flush=True)
"""


def test_a_killed_writer_leaves_one_whole_report(tmp_path):
    folder = tmp_path / "reports" / "table"
    folder.parent.mkdir()
    for _ in range(5):
        with subprocess.Popen([sys.executable, "-c", WRITER, folder], stdout=subprocess.PIPE, text=True) as writer:
            assert writer.stdout is not None and writer.stdout.readline()
            os.kill(writer.pid, signal.SIGKILL)
        assert sorted(os.listdir(folder)) == list("abcdef")
        assert len({path.read_text() for path in folder.iterdir()}) == 1


def test_nothing_of_an_earlier_report_stays_and_a_failed_one_changes_nothing(tmp_path):
    folder = tmp_path / "table"
    folder.mkdir()
    (folder / "earlier.csv").write_text("old")

    def fail(scratch):
        scratch.mkdir()
        (scratch / "report.html").write_text("half")
        raise OSError(28, "No space left on device")

    with pytest.raises(HomeError, match="No space left") as error:
        replace_report(fail, folder)
    assert error.value.where == str(folder) and os.listdir(folder) == ["earlier.csv"]

    def write(scratch):
        scratch.mkdir()
        (scratch / "report.html").write_text("new")
        return {"report.html": scratch / "report.html"}

    assert replace_report(write, folder) == {"report.html": folder / "report.html"}
    assert os.listdir(folder) == ["report.html"] and os.listdir(tmp_path) == ["table"]
