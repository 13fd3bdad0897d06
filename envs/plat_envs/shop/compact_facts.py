"""The sentences of the compact rendering that state facts, and whether the facts hold.

goal red so click red                              one fact
e2 pens price 9 goal pens price 12 so click e2     several
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from plat_envs.shop.product import Goal, Product
from plat_envs.shop.small_shop import COLORS, SIZES, THINGS
from plat_envs.shop.visit import Visit

_GROUPS = {
    "C": "|".join(COLORS),
    "S": "|".join(SIZES),
    "T": "|".join(THINGS),
    "O": "|".join((*COLORS, *SIZES)),
    "C_": "|".join((*COLORS, "_")),
    "S_": "|".join((*SIZES, "_")),
    "W": "|".join((*COLORS, *SIZES, *THINGS)),
    "E": "e[0-7]",
    "N": r"\d{1,2}",
}
_ACTION = f"(?:search(?: (?:{_GROUPS['W']})){{1,3}}|click (?:{_GROUPS['O']}|{_GROUPS['E']})|buy|back)"


def _sentence(pattern: str) -> re.Pattern[str]:
    """Return a rule as a regular expression with a group for each name of `_GROUPS`; other words are literal."""
    words = [f"({_GROUPS[word]})" if word in _GROUPS else word for word in pattern.split()]
    return re.compile(f"{' '.join(words)} so {_ACTION}")


def item_fact(item: Product, goal: Goal) -> str:
    """Return what is wrong with an item, e.g. "item price 20" or "item no red"; "" if nothing is."""
    if item.title != goal.query:
        return f"item {item.title}"
    if item.price > goal.limit:
        return f"item price {item.price:g}"
    offered = [value for values in item.options.values() for value in values]
    return next((f"item no {value}" for value in goal.options if value not in offered), "")


class _Facts:
    """What is true on the page that is open."""

    def __init__(self, visit: Visit, goal: Goal) -> None:
        self.visit, self.goal = visit, goal
        self.item = visit.item

    def wanted(self, *words: str) -> bool:
        return set(words) <= {*self.goal.options, self.goal.query}

    def limit(self, number: str) -> bool:
        return int(number) == self.goal.limit

    def price(self, number: str) -> bool:
        return self.item is not None and int(number) == self.item.price

    def kind(self, thing: str) -> bool:
        return self.item is not None and thing == self.item.title

    def lacks(self, option: str) -> bool:
        return self.item is not None and all(option not in values for values in self.item.options.values())

    def chosen(self, name: str, value: str) -> bool:
        return self.item is not None and self.visit.chosen.get(name, "_") == value

    def shown(self, product_id: str, number: str, thing: str = "") -> bool:
        if self.item is not None or product_id not in self.visit.shown():
            return False
        product = self.visit.shop.product(product_id)
        return product.price == int(number) and thing in ("", product.title)


_Rule = Callable[..., list[bool]]
_RULES: tuple[tuple[str, _Rule], ...] = (
    ("goal T", lambda facts, t: [facts.wanted(t)]),
    ("goal O", lambda facts, o: [facts.wanted(o)]),
    ("E price N", lambda facts, e, n: [facts.shown(e, n)]),
    ("item price N", lambda facts, n: [facts.price(n)]),
    ("item T", lambda facts, t: [facts.kind(t)]),
    ("item no O", lambda facts, o: [facts.lacks(o)]),
    ("goal C S T price N", lambda facts, c, s, t, n: [facts.wanted(c, s, t), facts.limit(n)]),
    (
        "E T price N goal T price N",
        lambda facts, e, t, n, wanted, limit: [facts.shown(e, n, t), facts.wanted(wanted), facts.limit(limit)],
    ),
    ("goal C S price N item price N", lambda facts, c, s, m, n: [facts.wanted(c, s), facts.limit(m), facts.price(n)]),
    ("goal C S price N item T", lambda facts, c, s, m, t: [facts.wanted(c, s), facts.limit(m), facts.kind(t)]),
    ("goal C S price N item no O", lambda facts, c, s, m, o: [facts.wanted(c, s), facts.limit(m), facts.lacks(o)]),
    (
        "goal C S price N item price N color C_ size S_",
        lambda facts, c, s, m, n, color, size: [
            facts.wanted(c, s),
            facts.limit(m),
            facts.price(n),
            facts.chosen("color", color),
            facts.chosen("size", size),
        ],
    ),
)
_GRAMMAR = [(_sentence(pattern), rule) for pattern, rule in _RULES]


def facts_stated(visit: Visit, goal: Goal, reasoning: str) -> list[bool]:
    """Return for each fact in the sentence True if it holds on this page; [] for a sentence outside the grammar."""
    return next(_judged(visit, goal, reasoning), [])


def _judged(visit: Visit, goal: Goal, reasoning: str) -> Iterator[list[bool]]:
    facts = _Facts(visit, goal)
    for pattern, rule in _GRAMMAR:
        if match := pattern.fullmatch(reasoning):
            yield rule(facts, *match.groups())
