"""The sentences of the chat rendering that state facts, and whether the facts hold.

B0ABCDEFGH costs 18.99; the limit is 40.00; so click[b0abcdefgh]
"""

from __future__ import annotations

import re

from plat_envs.shop.product import Goal, Product
from plat_envs.shop.visit import Visit

_JOIN = "; "
_COSTS = re.compile(r"(\w+) costs (\d+\.\d\d)")
_LIMIT = re.compile(r"the limit is (\d+\.\d\d)")
_WANTED = re.compile(r"(.+) is wanted")
_SO = re.compile(r"so (?:search|click)\[.+\]", re.DOTALL)


def costs(product: Product) -> str:
    """Return the fact that a product has its price."""
    return f"{product.id} costs {product.price:.2f}"


def limit_is(limit: float) -> str:
    """Return the fact that the highest price is this."""
    return f"the limit is {limit:.2f}"


def wanted(what: str) -> str:
    """Return the fact that the goal names this type, attribute or option."""
    return f"{what} is wanted"


def sentence(facts: list[str], answer: str) -> str:
    """Return the reasoning that states these facts and leads to the answer."""
    return _JOIN.join([*facts, f"so {answer}"])


def facts_stated(visit: Visit, goal: Goal, reasoning: str) -> list[bool]:
    """Return for each fact in the reasoning True if it holds on this page; [] for other sentences."""
    *facts, so = reasoning.split(_JOIN)
    judged = [_holds(visit, goal, fact) for fact in facts]
    if not _SO.fullmatch(so) or None in judged:
        return []
    return [bool(holds) for holds in judged]


def _holds(visit: Visit, goal: Goal, fact: str) -> bool | None:
    """Return whether a fact holds; None if the text states none."""
    if match := _COSTS.fullmatch(fact):
        shown = [visit.item.id] if visit.item else visit.shown() if visit.page == "results" else ()
        return match.group(1) in shown and fact == costs(visit.shop.product(match.group(1)))
    if _LIMIT.fullmatch(fact):
        return fact == limit_is(goal.limit)
    if match := _WANTED.fullmatch(fact):
        return match.group(1) in (goal.query, *goal.attributes, *goal.options)
    return None
