"""`python toy_search.py HOME FILE [KEY=VALUE ...]`: a search in a process of its own, for tests that kill it.

Prints the trials as JSON and leaves with the exit code of the driver's report.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from plat.dispatch.driver import sweep
from plat.search.search_file import read_searches
from plat.search.study import open_study
from plat.search.trial_source import TrialSource
from plat.store.home import Home

if __name__ == "__main__":
    place, file, *overrides = sys.argv[1:]
    home = Home(Path(place)).create()
    (search,) = read_searches(file, overrides)
    with open_study(home, search) as study:
        report = sweep(home, TrialSource(home, search, study, at_once=1), 1)
        trials = [[trial.number, trial.state.name, trial.params, trial.values] for trial in study.trials()]
    print(json.dumps({"trials": trials, "counts": report.counts()}), flush=True)
    sys.exit(report.exit_code)
