"""The compact rendering of `webshop`: 27 words, whatever the page.

    webshop buy red small pens price 12 . item e2 pens price 9 color red blue _ = _ size small large = _ . 5 <think>

A row of the results is id, thing, price, and `√` if the item was opened before. On the page of an item each group of
options ends in what is chosen, as in `= red`.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterator

from plat_envs.shop.product import Goal, Product
from plat_envs.shop.shopper import BUY, PREVIOUS, TO_SEARCH, Shopper, Visit
from plat_envs.shop.small_shop import COLORS, SIZES, THINGS, SmallShop, small_shop
from plat_envs.stand_in import ENTITIES, MAX_NUMBER

PAGE_WORDS = 16


class CompactShopper(Shopper):
    rules = ""  # the compact rendering has no instructions
    shop: SmallShop

    def _load(self, seed: int, noise: int) -> None:
        self.shop = small_shop(self.split, seed, self.config.shared_pool)
        self.goal = self.shop.goal
        self.visit, self.score = Visit(self.shop), 0.0
        self.color, self.size = self.goal.options
        self.thing, self.limit = self.goal.query, int(self.goal.limit)

    @property
    def problem(self) -> str:
        return str(self.shop)

    def _act(self, action: str) -> None:
        verb, _, rest = action.partition(" ")
        if verb == "search":
            self.visit.search(rest)
        elif action == "buy":
            self.visit.click(BUY)
        elif action == "back":
            self.visit.click(PREVIOUS if self.visit.item else TO_SEARCH)
        elif verb == "click" and rest in (*ENTITIES, *COLORS, *SIZES):
            self.visit.click(rest)

    def search(self, text: str) -> str:
        return f"search {text}"

    def click(self, name: str) -> str:
        return "buy" if name == BUY else f"click {name}"

    def actions(self) -> list[str]:
        searches = [f"search {thing}" for thing in THINGS] + [f"search {self.color} {self.thing}"]
        if self.visit.item is None:
            return searches + [f"click {product_id}" for product_id in self.visit.shown()]
        clicks = [f"click {value}" for values in self.visit.item.options.values() for value in values]
        return [*clicks, "buy", "back", *searches[-1:]]

    # --- the prompt ---------------------------------------------------------------------------------------------------

    def _compact(self) -> str:
        words = self._page()
        padded = " ".join([*words, *["_"] * (PAGE_WORDS - len(words))])
        return f"webshop buy {self.goal.text} . {padded} . {self._budget()} <think>"

    def _page(self) -> list[str]:
        visit = self.visit
        if visit.page == "item" and visit.item:
            return self._item_page(visit.item)
        if visit.page == "results":
            rows = map(self._row, visit.shown())
            return " ".join(rows).split() or ["no", "result"]
        return ["page", "search" if visit.page == "search" else "finish"]

    def _row(self, product_id: str) -> str:
        item = self.shop.items[product_id]
        return f"{product_id} {item.title} {item.price:g} {'√' if product_id in self.visit.seen else '_'}"

    def _item_page(self, item: Product) -> list[str]:
        words = ["item", item.id, item.title, "price", f"{item.price:g}"]
        for name, values in (("color", COLORS), ("size", SIZES)):
            offered = item.options[name]
            words += [name, *offered, *["_"] * (len(values) - len(offered)), "=", self.visit.chosen.get(name, "_")]
        return words

    # --- demonstrations -----------------------------------------------------------------------------------------------

    def _good_answer(self, rng: random.Random) -> str:
        # Only the page decides. After a search for all words the first row within the limit is the right one.
        item = self.visit.item
        if item is None:
            return next((f"click {row}" for row in self.visit.shown() if self._worth_a_look(row)), self._good_search())
        if item.id != self.shop.right:  # the page shows why: its price, or a color or size that it lacks
            return "back"
        missing = self.missing_options()
        return f"click {missing[0]}" if missing else "buy"

    def _worth_a_look(self, row: str) -> bool:
        """Return True for an item of the wanted kind, within the limit, that was not opened before."""
        item = self.shop.items[row]
        return row not in self.visit.seen and item.title == self.thing and item.price <= self.limit

    def _good_search(self) -> str:
        return f"search {self.color} {self.size} {self.thing}"

    def _facts(self, answer: str, several: bool) -> str:
        goal = f"goal {self.color} {self.size} {self.thing} price {self.limit}" if several else f"goal {self.thing}"
        if self.visit.item:
            return f"{self._item_facts(self.visit.item, several)} so {answer}"
        clicked = self.shop.items.get(answer.rpartition(" ")[2])
        if clicked is None:
            return f"{goal} so {answer}"
        if not several:
            return f"{clicked.id} price {clicked.price:g} so {answer}"
        return f"{clicked.id} {clicked.title} price {clicked.price:g} goal {self.thing} price {self.limit} so {answer}"

    def _item_facts(self, item: Product, several: bool) -> str:
        fact, goal = item_fact(item, self.goal), f"goal {self.color} {self.size} price {self.limit}"
        if fact:
            return f"{goal} {fact}" if several else fact
        missing = self.missing_options()
        if not several:
            return f"goal {missing[0]}" if missing else f"item price {item.price:g}"
        color, size = (self.visit.chosen.get(name, "_") for name in ("color", "size"))
        return f"{goal} item price {item.price:g} color {color} size {size}"

    def _wrong_facts(self, rng: random.Random) -> tuple[str, str]:
        answer = self._random_answer(rng)
        while True:
            said = f"{self._drawn_facts(rng)} so {answer}"
            if not all(self._facts_stated(said)):
                return said, answer

    def _drawn_facts(self, rng: random.Random) -> str:
        """Return facts in the form of several, with everything that they state drawn at random."""
        color, size, thing = rng.choice(COLORS), rng.choice(SIZES), rng.choice(THINGS)
        price, limit = rng.randint(1, MAX_NUMBER), rng.randint(1, MAX_NUMBER)
        if self.visit.item:
            chosen = f"color {rng.choice((*COLORS, '_'))} size {rng.choice((*SIZES, '_'))}"
            return f"goal {color} {size} price {limit} item price {price} {chosen}"
        if self.visit.page == "results" and rng.random() < 0.5:
            return f"{rng.choice(ENTITIES)} {thing} price {price} goal {rng.choice(THINGS)} price {limit}"
        return f"goal {color} {size} {thing} price {limit}"

    def _facts_stated(self, reasoning: str) -> list[bool]:
        return facts_stated(self.visit, self.goal, reasoning)


# The sentences of the compact rendering that state facts, and whether the facts hold.
#
# goal red so click red                              one fact
# e2 pens price 9 goal pens price 12 so click e2     several

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
