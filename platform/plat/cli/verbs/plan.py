"""`plat plan`: show which runs would run, and their cost."""

from __future__ import annotations

from plat.app.checking import claims_foreseen, foreseen_lines, plan_checked, warn_of_machine
from plat.app.deciding import plan_lines
from plat.app.loading import any_search, load_experiments, split
from plat.cli.common import (
    Arguments,
    DecideOption,
    HomeOption,
    JobsOption,
    JsonOption,
    StoreOption,
    print_json,
    settings,
    shown,
    verb,
    with_decide,
)
from plat.cli.screen.table import fitted
from plat.cli.screen.tune_report import plan_searches
from plat.store.home import Home


@verb(reads_trainers=True)
def plan(
    arguments: Arguments = None,
    jobs: JobsOption = None,
    decide: DecideOption = False,
    home: HomeOption = None,
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> int:
    """Show what would run and what it costs.

    Prints the matrix, what is done, running and missing, and the expected time. Writes nothing here. A server as
    --store must take artifacts and give them back: one file is written there.
    """
    from plat.store.mlflow.server_check import check_artifacts

    arguments = with_decide(arguments, decide)
    files, overrides = split(arguments)
    place = Home.find(home).checked()
    if any_search(files[:1]):
        return plan_searches(arguments, place)
    experiments = load_experiments(arguments, home=home)
    check_artifacts(place, place.store_uri(store))
    uri = place.store_uri(store)
    decided = [line for one in experiments if one.decide for line in plan_lines(place, uri, one)]
    made = plan_checked(experiments, place, overrides, jobs)
    warn_of_machine([row.run for row in made.left], place)
    claims = claims_foreseen(experiments)
    if as_json:
        print_json({"home": str(place.root), **made.to_json(), "claims": claims})
    else:
        print(fitted("\n".join([made.render(verbose=settings.verbose), *decided, *foreseen_lines(claims)])))
        absent = "" if place.exists() else " (there is none yet, so no run is known; --home DIR names another)"
        print(f"home: {shown(place.root)}{absent}")
    return 0
