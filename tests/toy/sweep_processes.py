"""Sweeps in processes of their own, for tests that interrupt and kill them, and what to ask about their processes."""

import json
import subprocess
import sys
import time
from pathlib import Path

TOY = Path(__file__).parent
SLOW = [{"seed": seed, "iterations": 100, "sleep": 0.02, "checkpoint_every": 5} for seed in range(3)]


class Recorder:
    """A Progress that remembers."""

    def __init__(self):
        self.lines, self.most_running = [], 0

    def change(self, change, *, measured="", seconds=0.0):
        self.lines.append((change.title, change.state, change.outcome))

    def update(self, views, totals):
        self.most_running = max(self.most_running, totals.running + totals.preparing)

    def message(self, text):
        self.lines.append(text)

    def end(self):
        self.lines.append("end")


def start(home, options, jobs=2, **place):
    """A sweep in a process group of its own; `place` says where its runs go, as for `sweep`."""
    arguments = [sys.executable, str(TOY / "toy_sweep.py"), str(home.root), str(jobs), json.dumps(options)]
    arguments.append(json.dumps(place))
    return subprocess.Popen(
        arguments, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True
    )


def finish(process, timeout=60):
    """(exit code, output, the JSON of its last line)"""
    output = process.communicate(timeout=timeout)[0]
    last = output.strip().rpartition("\n")[2]
    return process.returncode, output, json.loads(last) if last.startswith("{") else None


def wait_for(condition, process=None, timeout=300):
    until = time.monotonic() + timeout
    while not condition():
        assert process is None or process.poll() is None, process.communicate()[0]
        assert time.monotonic() < until, "it did not happen"
        time.sleep(0.01)


def members(session):
    """Processes of a session that are not zombies: a sweep started here, its server, and its workers."""
    pids = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = stat_of(entry.name)
            except OSError:
                continue
            if int(fields[3]) == session and fields[0] != "Z":
                pids.append(int(entry.name))
    return pids


def stat_of(pid):
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()


def state_of(pid):
    """One letter: R running, S sleeping, T stopped."""
    return stat_of(pid)[0]


def parent_of(pid):
    return int(stat_of(pid)[1])
