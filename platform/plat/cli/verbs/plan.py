"""`plat plan`: show which runs would run, and their cost."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from plat.app.checking import claims_foreseen, foreseen_lines, plan_checked, warn_of_machine
from plat.app.deciding import foresee
from plat.app.loading import any_search, load_experiments, split
from plat.app.rates import rates_of
from plat.cli.common import (
    Arguments,
    DecideOption,
    HomeOption,
    JobsOption,
    StoreOption,
    shown,
    verb,
    with_decide,
)
from plat.cli.result import Result, settings
from plat.cli.schemas.results import PlanData
from plat.cli.screen.table import fitted
from plat.cli.screen.tune_report import plan_searches
from plat.store.home import Home


@verb(PlanData, reads_trainers=True)
def plan(
    arguments: Arguments = None,
    jobs: JobsOption = None,
    decide: DecideOption = False,
    home: HomeOption = None,
    store: StoreOption = None,
) -> Result:
    """Show what would run and what it costs.

    Prints the matrix, what is done, running and missing, and the expected time. Writes nothing here. A server as
    --store must take artifacts and give them back: one file is written there. With `cluster=NAME` also the money, at
    the rates under `cost:` in this profile.
    """
    return planned(with_decide(arguments, decide), jobs, home, store)


def planned(arguments: Sequence[str], jobs: int | None, home: str | None, store: str | None) -> Result:
    """Return what would run, as `plat plan` shows it. Raises PlatError for whatever a sweep would refuse."""
    from plat.store.mlflow.server_check import check_artifacts

    files, overrides = split(arguments)
    place = Home.find(home).checked()
    if any_search(files[:1]):
        return plan_searches(arguments, place)
    experiments = load_experiments(arguments, home=home)
    check_artifacts(place, place.store_uri(store))
    looks = [foresee(place, place.store_uri(store), one) for one in experiments if one.decide]
    made = replace(plan_checked(experiments, place, overrides, jobs), rates=rates_of(arguments))
    warn_of_machine([row.run for row in made.left], place)
    claims = claims_foreseen(experiments)
    data = {"home": str(place.root), **made.to_json(), "claims": claims, "decide": [one.to_json() for one in looks]}

    def text() -> str:
        decided = [line for one in looks for line in one.lines]
        lines = [made.render(verbose=settings.verbose), *decided, *foreseen_lines(claims)]
        absent = "" if place.exists() else " (there is none yet, so no run is known; --home DIR names another)"
        return fitted("\n".join(lines)) + f"\nhome: {shown(place.root)}{absent}"

    return Result(data, text)
