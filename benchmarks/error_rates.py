"""Measure the error rates of the report: simulated runs, judged by the functions that judge real ones.

    python benchmarks/error_rates.py [--draws N] [--spread-share 0] [PART ...]

    tables       stars and verdicts of tables like Table 4, and how often an effect of 5 points is shown
    claims       claims of a few rows, with one condition that collapses in half of its runs
    spreads      claims of rows with unequal spreads
    assumptions  rare large losses or gains, and seed effects that builds share: what is promised, and what is not
    looks        a claim that is judged again while seeds are added
    builds       claims about these builds of the base model, and about all builds
    regimes      the regimes of a run's end, near the limits of their rule
    trends       claims that a measure falls along an order of conditions
    correlation  rank correlations over settings with similar runs
    foretelling  claims that a measure predicts an outcome, or a signal a gain
    levels       claims that a measure lies above a bound
    order        claims that one signal falls before another
    sequential   claims that are judged at planned looks while seeds are added (`--decide`)
    judging      `plat judge`: one question, and studies of many
    shapes       runs without pairs, and few seeds on many tasks
    stores       every check on whole stores, from the experiment file to the verdict

Each line states the promised rate. `--draws` is the number of tables, claims or runs for each rate. `--spread-share 0`
shows the rates if stars and verdicts used a cell's own spread alone, also below eight pairs. The module of a part in
benchmarks/simulated describes its draws.
"""

from __future__ import annotations

import importlib

from measuring import options

from plat_analysis.statistics import significance

PARTS = ("tables", "claims", "spreads", "assumptions", "looks", "builds", "regimes", "trends")
PARTS += ("correlation", "foretelling", "levels", "order", "sequential", "judging", "shapes", "stores")


def main() -> None:
    parser = options(__doc__, draws=400)
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"{', '.join(PARTS)} [all]")
    parser.add_argument("--spread-share", type=float, default=significance.SPREAD_SHARE, help="[%(default)s]")
    arguments = parser.parse_args()
    unknown = [part for part in arguments.parts if part not in PARTS]
    if unknown:
        parser.error(f"there is no part {unknown[0]!r}; one of: {', '.join(PARTS)}")
    significance.SPREAD_SHARE = arguments.spread_share
    for part in arguments.parts or PARTS:
        for line in importlib.import_module(f"simulated.{part}").lines(arguments.draws):
            print(line, flush=True)
        print()


if __name__ == "__main__":
    main()
