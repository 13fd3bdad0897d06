"""`plat.log`: record metrics from a script. Imports only Python's own modules."""

from __future__ import annotations

import json
import os
import time

last_step = 0  # of this process
WRITTEN = "_plat_time"  # the name of the time in a line, in seconds since 1970


def log(step: int, **metrics: float) -> None:
    """Record metrics of one step; steps rise. Outside a run of plat, print them as a line of JSON.

    >>> log(1, loss=0.5)
    {"step": 1, "loss": 0.5}
    """
    global last_step
    last_step = int(step)
    values = {"step": int(step), **{name: float(value) for name, value in metrics.items()}}
    path = os.environ.get("PLAT_METRICS")
    if path is None:
        print(json.dumps(values), flush=True)
        return
    line = json.dumps({**values, WRITTEN: time.time()}) + "\n"
    with open(path, "a", encoding="utf-8") as file:  # one write: several processes may log
        file.write(line)
