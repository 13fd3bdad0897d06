"""Two scripted policies of `webshop`, see `plat_envs.stand_in.scripted`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from plat_envs.shop.visit import BUY

if TYPE_CHECKING:
    from plat_envs.shop.shopper import Shopper


def take_the_first(environment: Shopper) -> str:
    """Blind: search for the kind of product, open the first result, choose wanted options that it has, and buy it."""
    return _open_or_search(environment, environment.goal.query, environment.visit.shown()) or _buy(environment)


def take_the_first_affordable(environment: Shopper) -> str:
    """Greedy: search for the attributes too, and open the first result whose price is within the limit."""
    shop, goal, shown = environment.visit.shop, environment.goal, environment.visit.shown()
    affordable = tuple(one for one in shown if shop.product(one).price <= goal.limit)
    text = " ".join([*goal.attributes, goal.query])
    return _open_or_search(environment, text, affordable or shown) or _buy(environment)


def _open_or_search(environment: Shopper, text: str, results: tuple[str, ...]) -> str:
    """Return the action that opens the first result, or else searches; "" on the page of an item."""
    if environment.visit.item is not None:
        return ""
    return environment.click(results[0]) if results else environment.search(text)


def _buy(environment: Shopper) -> str:
    missing = environment.missing_options()
    return environment.click(missing[0] if missing else BUY)
