"""Two scripted policies of `webshop`, see `plat_envs.stand_in.scripted`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from plat_envs.shop.visit import BUY

if TYPE_CHECKING:
    from plat_envs.shop.shopper import Shopper


def take_the_first(environment: Shopper) -> str:
    """Blind: search for the kind of product alone, and buy the first result, with the wanted options that it has."""
    return _open_the_first(environment, environment.goal.query) or _buy(environment)


def take_the_first_that_matches(environment: Shopper) -> str:
    """Greedy: search for all that is wanted, and buy the first result, whatever its price."""
    goal = environment.goal
    return _open_the_first(environment, " ".join([*goal.attributes, goal.query, *goal.options])) or _buy(environment)


def _open_the_first(environment: Shopper, text: str) -> str:
    """Return the action that opens the first result, or else searches for a text; "" on the page of an item."""
    if environment.visit.item is not None:
        return ""
    shown = environment.visit.shown()
    return environment.click(shown[0]) if shown else environment.search(text)


def _buy(environment: Shopper) -> str:
    missing = environment.missing_options()
    return environment.click(missing[0] if missing else BUY)
