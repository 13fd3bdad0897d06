"""The shops of the compact rendering: six to eight items, exactly one of which is what is wanted.

The goal (colour, size, thing, highest price) decides the split. Every position shows it, so none is in two splits.
Three or four items are of the wanted kind. All but one of them are too expensive or lack the colour or the size.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache, partial

from plat_envs.instances import Candidate, draw
from plat_envs.shop.product import Goal, Product
from plat_envs.stand_in import ENTITIES, MAX_NUMBER

THINGS = ("apples", "books", "coins", "pens")
COLORS = ("red", "blue", "green")
SIZES = ("small", "large")
WINDOW = 4  # results that are shown
LOWEST_LIMIT, HIGHEST_LIMIT = 3, MAX_NUMBER - 2


@dataclass(frozen=True)
class SmallShop:
    """Items by id. A search finds those that have most of its words; equally good ones are ordered by id."""

    goal: Goal
    right: str  # the id of the wanted item
    items: dict[str, Product]
    window: int = WINDOW

    def product(self, product_id: str) -> Product:
        return self.items[product_id]

    def search(self, text: str) -> tuple[str, ...]:
        words = set(text.split())
        matches = {item.id: len(words & words_of(item)) for item in self.items.values()}
        found = sorted((one for one in matches if matches[one]), key=lambda one: -matches[one])  # ids are in order
        return tuple(found[: self.window])

    def __str__(self) -> str:
        """The goal and the items, so that two shops are the same problem if their texts are equal."""
        items = (
            f"{item.title} {item.price:g} {' '.join(sum(item.options.values(), ()))}" for item in self.items.values()
        )
        return " . ".join([self.goal.text, *sorted(items)])


def words_of(item: Product) -> set[str]:
    """Return the words under which an item is found: its kind and its options."""
    return {item.title, *(value for values in item.options.values() for value in values)}


def _some(rng: random.Random, values: tuple[str, ...]) -> tuple[str, ...]:
    """Draw one or more of the values; they stay in order."""
    chosen = rng.sample(values, rng.randint(1, len(values)))
    return tuple(value for value in values if value in chosen)


def _item(
    rng: random.Random, thing: str, goal: tuple[str, str, int], lacks: str
) -> tuple[str, int, tuple[str, ...], tuple[str, ...]]:
    """Draw thing, price, colours and sizes of an item that fits the goal but for what it `lacks`."""
    color, size, limit = goal
    colors, sizes = _some(rng, COLORS), _some(rng, SIZES)
    if lacks == "color":
        colors = _some(rng, tuple(other for other in COLORS if other != color))
    elif lacks == "size":
        sizes = tuple(other for other in SIZES if other != size)
    price = rng.randint(limit + 1, MAX_NUMBER) if lacks == "price" else rng.randint(1, MAX_NUMBER)
    if lacks in ("price", ""):
        colors = tuple(one for one in COLORS if one in (*colors, color))
        sizes = tuple(one for one in SIZES if one in (*sizes, size))
    if not lacks:
        price = rng.randint(1, limit)
    return thing, price, colors, sizes


def _make(rng: random.Random, color: str, size: str, thing: str, limit: int) -> SmallShop:
    alike, others = rng.randint(3, 4), rng.randint(3, 4)
    wanted = color, size, limit
    drawn = [_item(rng, thing, wanted, "")]
    drawn += [_item(rng, thing, wanted, rng.choice(("price", "color", "size"))) for _ in range(alike - 1)]
    rest = tuple(other for other in THINGS if other != thing)
    drawn += [
        (rng.choice(rest), rng.randint(1, MAX_NUMBER), _some(rng, COLORS), _some(rng, SIZES)) for _ in range(others)
    ]
    ids = rng.sample(ENTITIES, len(drawn))
    items = {
        name: Product(name, kind, price, kind, (), (kind,), {"color": colors, "size": sizes})
        for name, (kind, price, colors, sizes) in sorted(zip(ids, drawn, strict=True))
    }
    text = f"{color} {size} {thing} price {limit}"
    goal = Goal(ids[0], text, (), (color, size), limit, thing, (), (thing,))
    return SmallShop(goal, ids[0], items)


@lru_cache(maxsize=4096)
def small_shop(split: str, seed: int, shared_pool: bool) -> SmallShop:
    """Return the shop of (split, seed). Raises BadEnvironment for an unknown split."""

    def candidates(rng: random.Random) -> Iterator[Candidate[SmallShop]]:
        while True:
            color, size, thing = rng.choice(COLORS), rng.choice(SIZES), rng.choice(THINGS)
            limit = rng.randint(LOWEST_LIMIT, HIGHEST_LIMIT)
            yield f"{color} {size} {thing} {limit}", partial(_make, rng, color, size, thing, limit)

    return draw("webshop", split, seed, shared_pool, candidates)
