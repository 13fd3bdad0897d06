"""The program that holds the Tuner of a search; its arguments are those of `plat.dispatch.ray.driver`."""

from __future__ import annotations

import sys
from typing import Any

from plat.dispatch.ray.driver import main


def _search() -> Any:
    from plat.search.ray.tuned_search import TunedSearch

    return TunedSearch()


if __name__ == "__main__":
    main(sys.argv[1:], _search)
