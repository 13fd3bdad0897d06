"""How often the report is wrong: simulated runs through the functions that decide real ones.

    python benchmarks/error_rates.py [--draws N] [--spread-share 0] [PART ...]

    tables       stars and verdicts of tables as Table 4, and how often an effect of 5 points is shown
    claims       claims of a few rows, where one condition collapses in half of its runs
    looks        a claim that is judged again while seeds are added
    builds       claims about these builds of the base model, and about such builds
    regimes      the words for how a run ended, at the edges of their rule
    trends       claims that a measure falls along an order of conditions
    correlation  rank correlations over settings, where runs of one setting are alike
    foretelling  claims that a measure foretells an outcome, or a signal a gain
    levels       claims that a measure lies above a bound
    order        claims that one signal falls before another
    stores       every check on whole stores, from the experiment file to the verdict

Each line says what is promised. `--spread-share 0` shows what stars and verdicts would be worth if a cell's own spread
were trusted. The module of a part in benchmarks/simulated says what is drawn.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator

from simulated import builds, claims, correlation, foretelling, levels, looks, order, regimes, stores, tables, trends

from plat_analysis.statistics import families

PARTS: dict[str, Callable[[int], Iterator[str]]] = {
    "tables": tables.lines,
    "claims": claims.lines,
    "looks": looks.lines,
    "builds": builds.lines,
    "regimes": regimes.lines,
    "trends": trends.lines,
    "correlation": correlation.lines,
    "foretelling": foretelling.lines,
    "levels": levels.lines,
    "order": order.lines,
    "stores": stores.lines,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"{', '.join(PARTS)} [all]")
    parser.add_argument("--draws", type=int, default=400, help="tables, claims or runs for each rate [400]")
    parser.add_argument(
        "--spread-share", type=float, default=families.SPREAD_SHARE, help="as in families [%(default)s]"
    )
    arguments = parser.parse_args()
    unknown = [part for part in arguments.parts if part not in PARTS]
    if unknown:
        parser.error(f"there is no part {unknown[0]!r}; one of: {', '.join(PARTS)}")
    families.SPREAD_SHARE = arguments.spread_share
    for part in arguments.parts or PARTS:
        for line in PARTS[part](arguments.draws):
            print(line, flush=True)
        print()


if __name__ == "__main__":
    main()
