"""Counts what a process does to a home, and ends it at the step that a test asks for.

As a program, `python step_counter.py HOME SIGNAL AT ARGUMENT ...` is `plat ARGUMENT ...` that sends SIGNAL to itself
before step AT (0: it lives); at its end it prints to stderr how many steps it took.
"""

from __future__ import annotations

import os
import signal
import sys
from typing import Any

STEPS = ("open", "os.link", "os.rename", "os.remove", "os.mkdir", "os.listdir", "fcntl.flock", "subprocess.Popen")
STEPS += ("http.client.send",)
KillAt = int | str


class StepCounter:
    """Counts the steps of this process, and kills it before the one that is asked for.

    A step is whatever Python tells its auditors of and that touches the home, a lock, a process or a web server.
    """

    def __init__(self, home: str, kill_at: KillAt, number: int = signal.SIGKILL) -> None:
        self.steps = 0
        self._home = home
        self._kill_at = kill_at
        self._number = number
        self._pid = os.getpid()
        sys.addaudithook(self._hear)

    def _hear(self, event: str, arguments: tuple[Any, ...]) -> None:
        if event not in STEPS or os.getpid() != self._pid:
            return
        if event in ("fcntl.flock", "subprocess.Popen", "http.client.send") or self._home in str(arguments[:1]):
            self.steps += 1
            name, _, text = str(self._kill_at).partition(" ")
            if self.steps == self._kill_at or (name == event and text in str(arguments[:2])):
                os.kill(os.getpid(), self._number)


if __name__ == "__main__":
    place, number, at, *command = sys.argv[1:]
    counter = StepCounter(place, int(at), int(number))
    from plat.cli import main

    try:
        main(command)
    finally:
        print(f"{counter.steps} steps", file=sys.stderr)
