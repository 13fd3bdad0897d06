"""Submits toy runs from many processes at once, some of which kill themselves on the way.

Reads requests from stdin, one JSON object a line, and answers each with one line:

    {"runs": 4, "submitters": [[HOME, 0], [HOME, 17], [HOME, "os.link job.json"]]}
        ->  [{"exit": 0, "steps": 93, "said": "..."}, ...]

They all start at the same moment. Beside its home, a submitter is told 0 (it lives), the number of the step that it
kills itself before, or the event of a step and a text that stands in its arguments. A step is whatever Python tells its
auditors of and that touches the home, a lock or a process: opening, linking, renaming or removing a file, making a
folder, locking, starting a command. `exit` is negative where a signal ended the submitter.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
import tempfile
import traceback
from pathlib import Path
from typing import IO, Any

import submitit.slurm.slurm  # noqa: F401 - imported once, before the forks
from clusters import QUICK
from step_counter import KillAt, StepCounter
from toy_runs import toy_run

import plat.dispatch.slurm.slurm_dispatcher  # noqa: F401
from plat.dispatch.driver import sweep
from plat.store.home import Home

CLUSTER = (*QUICK, "cluster.runs_per_task=2", "cluster.command_timeout=10")


def submit(home: str, runs: int, kill_at: KillAt) -> int:
    """What a submitter does; prints how many steps it took."""
    counter = StepCounter(home, kill_at)
    asked = [toy_run(seed=seed) for seed in range(runs)]
    report = sweep(Home(Path(home)).create(), asked, on="slurm", cluster=CLUSTER, detach=True)
    steps = counter.steps
    print(f"{report.counts()} {[end.reason for end in report.ends.values()][:2]}\n{steps}")
    return report.exit_code


def start(home: str, runs: int, kill_at: KillAt, gate: tuple[int, int], output: IO[str]) -> int:
    """Fork a submitter that waits until `gate`, a pipe, is closed, and prints to `output`; its process number."""
    pid = os.fork()
    if pid:
        return pid
    code = 1
    try:
        os.close(gate[1])
        for stream in (1, 2):
            os.dup2(output.fileno(), stream)
        os.read(gate[0], 1)
        code = submit(home, runs, kill_at)
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def answer(request: dict[str, Any]) -> list[dict[str, Any]]:
    """Do what a request asks; how each submitter ended."""
    gate = os.pipe()
    with contextlib.ExitStack() as stack:
        started = []
        for home, kill_at in request["submitters"]:
            output = stack.enter_context(tempfile.TemporaryFile("w+"))
            started.append((start(home, request["runs"], kill_at, gate, output), output))
        for end in reversed(gate):
            os.close(end)
        return [_end(pid, output) for pid, output in started]


def _end(pid: int, output: IO[str]) -> dict[str, Any]:
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    output.seek(0)
    said = output.read()
    last = said.strip().rpartition("\n")[2]
    return {"exit": code, "steps": int(last) if last.isdigit() else None, "said": said}


if __name__ == "__main__":
    for line in sys.stdin:
        print(json.dumps(answer(json.loads(line))), flush=True)
