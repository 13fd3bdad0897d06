"""`plat --help` against its libraries: processor time of whole processes, each beside the same interpreter that imports
typer and does nothing. The best of several counts, because the others measure the machine's other work.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys

REPEATS = 10
REFERENCE = "import typer"


def cpu_seconds(command: list[str]) -> float:
    """Processor time, user and system, of one process and those it waited for."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


if __name__ == "__main__":
    ours, reference = [], []
    for _ in range(REPEATS):  # in turn, so that both meet the same machine
        ours.append(cpu_seconds([sys.executable, "-m", "plat", "--help"]))
        reference.append(cpu_seconds([sys.executable, "-c", REFERENCE]))
    against = f"`{REFERENCE}` alone: {min(reference):.3f} s"
    figure = {"name": "plat --help, processor time", "value": min(ours), "unit": "s", "against": against}
    print("BENCH " + json.dumps({**figure, "ratio": min(reference) / min(ours)}))
