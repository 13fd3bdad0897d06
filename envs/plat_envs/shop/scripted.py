"""Two scripted policies of `webshop`, see `plat_envs.scripted`."""

from __future__ import annotations

from plat_envs.shop.shopper import Shopper
from plat_envs.shop.visit import BUY


def take_the_first(environment: Shopper) -> str:
    """Blind: return the next action of one who buys the first result, with the wanted options if it has them."""
    return _shop(environment, affordable=False)


def take_the_first_affordable(environment: Shopper) -> str:
    """Greedy: the same for the first result whose price on the page of results is within the limit."""
    return _shop(environment, affordable=True)


def _shop(environment: Shopper, affordable: bool) -> str:
    visit, goal = environment.visit, environment.goal
    if visit.item is None:
        rows = [visit.shop.product(product_id) for product_id in visit.shown()]
        within = [row for row in rows if row.price <= goal.limit] if affordable else []
        return environment.click((within or rows)[0].id) if rows else environment.search(goal.query)
    missing = environment.missing_options()
    return environment.click(missing[0] if missing else BUY)
