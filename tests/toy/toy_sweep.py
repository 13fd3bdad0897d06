"""`python toy_sweep.py HOME JOBS RUNS-AS-JSON [PLACE-AS-JSON]`: a sweep in a process of its own, for tests to kill.

JOBS is 0 for as many as the cores allow; RUNS is a list of keyword arguments of `toy_run`, PLACE says where they go, as
keyword arguments of `sweep`. Prints progress lines, then
the counts and the trouble as JSON; leaves with the report's exit code.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from toy_runs import toy_run

from plat.dispatch.driver import sweep
from plat.dispatch.progress import Plain
from plat.store.home import Home

if __name__ == "__main__":
    place, jobs, wanted, *where = sys.argv[1:]
    runs = [toy_run(**options) for options in json.loads(wanted)]
    report = sweep(
        Home(Path(place)).create(), runs, int(jobs) or None, Plain(), **json.loads(where[0] if where else "{}")
    )
    fresh = [end.run.id for end in report.ends.values() if end.fresh]
    print(json.dumps({"counts": report.counts(), "fresh": fresh, "trouble": report.trouble}), flush=True)
    sys.exit(report.exit_code)
