"""What both renderings of `webshop` share: an episode is a visit to a shop, paid when something is bought."""

from __future__ import annotations

import random
from abc import abstractmethod
from typing import Any

from plat_envs.shop.product import Goal, Product, Shop, WebShopConfig, matches, score
from plat_envs.turns.episode import Episode

TEMPLATES = (
    "let me look at the price",
    "i should check the color and size",
    "first search then look closer",
    "let me click the next item",
    "i will buy the item now",
    "think carefully and plan this",
)


def _best(values: tuple[str, ...], wanted: tuple[str, ...]) -> str:
    """Return the value that is one of `wanted`, or else the first one that counts as one of them; "" if none does."""
    alike = [value for value in values if any(matches(value, option) for option in wanted)]
    return next((value for value in alike if value in wanted), alike[0] if alike else "")


class Shopper(Episode):
    """An episode of `webshop`. Every answer that is not empty is valid; what is no action changes nothing.

    After the purchase `score` is its score. `success` means the full score.
    """

    task = "webshop"
    templates = TEMPLATES
    config: WebShopConfig
    goal: Goal
    visit: Visit
    score: float

    def _read(self, answer: str) -> tuple[list[Any], bool]:
        return ([answer], True) if answer else ([], False)

    def _play(self, action: str) -> tuple[float, bool, bool]:
        before = self.visit.state
        self._act(action)
        over = self.visit.page == "done"
        if over and self.visit.item:
            self.score = score(self.visit.item, self.visit.chosen.values(), self.goal)
            self.success = self.score >= 1
        reward = self.score if self.config.reward == "dense" else float(self.success)
        return reward, self.visit.state != before, over

    @abstractmethod
    def _act(self, action: str) -> None:
        """Play an action; text that is none, or is impossible on this page, changes nothing."""

    def missing_options(self) -> list[str]:
        """Return the values of the open item that match an option of the goal and are still to be clicked on."""
        item, chosen = self.visit.item, self.visit.chosen
        if item is None:
            return []
        best = {name: _best(values, self.goal.options) for name, values in item.options.items()}
        return [
            value for name, value in best.items() if value and not _best((chosen.get(name, ""),), self.goal.options)
        ]

    @abstractmethod
    def search(self, text: str) -> str:
        """Return the answer that searches for a text."""

    @abstractmethod
    def click(self, name: str) -> str:
        """Return the answer that clicks on the id of a product, a value of an option, or a button of `visit`."""

    @abstractmethod
    def actions(self) -> list[str]:
        """Return the actions that are possible on this page."""

    def _random_answer(self, rng: random.Random) -> str:
        return rng.choice(self.actions())

    def blind(self) -> str:
        return take_the_first(self)

    def greedy(self) -> str:
        return take_the_first_that_matches(self)


# Two scripted policies of `webshop`, see `plat_envs.policies`.


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


# A visit to a shop: the page that is open, and what can be clicked on it.
#
#     search -> results (a page of them at a time) -> item -> description, features or reviews -> item -> done
#
# A click on something that the page does not have changes nothing. A search is possible on every page.

TO_SEARCH, PREVIOUS, NEXT, BUY = "back to search", "< prev", "next >", "buy now"
SUB_PAGES = ("description", "features", "reviews")


class Visit:
    """One visit. `page` is search, results, item, one of SUB_PAGES, or done."""

    def __init__(self, shop: Shop) -> None:
        self.shop = shop
        self.seen: set[str] = set()  # ids of products that were opened
        self._to_search()

    def _to_search(self) -> None:
        self.page = "search"
        self.hits: tuple[str, ...] = ()
        self.number = 1  # of the page of results
        self._leave_item()

    def _leave_item(self) -> None:
        self.item: Product | None = None
        self.chosen: dict[str, str] = {}  # name of the option -> value

    @property
    def state(self) -> tuple[Any, ...]:
        """Everything that a visit is. Two equal states have equal futures."""
        item = self.item.id if self.item else None
        return self.page, self.hits, self.number, item, tuple(self.chosen.items()), frozenset(self.seen)

    def shown(self) -> tuple[str, ...]:
        """Return the ids of the products on this page of results."""
        first = (self.number - 1) * self.shop.window
        return self.hits[first : first + self.shop.window]

    def clickable(self) -> list[str]:
        """Return everything that can be clicked, in lower case: buttons, then products or values of options."""
        if self.page == "results":
            rows = [product_id.lower() for product_id in self.shown()]
            back = [PREVIOUS] if self.number > 1 else []
            onward = [NEXT] if rows or not back else []
            return [TO_SEARCH, *back, *onward, *rows]
        if self.page == "item" and self.item:
            values = [value for group in self.item.options.values() for value in group]
            return list(dict.fromkeys([TO_SEARCH, PREVIOUS, *SUB_PAGES, BUY, *values]))
        return [TO_SEARCH, PREVIOUS] if self.page in SUB_PAGES else []

    def search(self, text: str) -> None:
        """Open the first page of the results of a search. A blank text changes nothing."""
        if text.strip():
            self._to_search()
            self.hits = self.shop.search(text)
            self.page = "results"

    def click(self, name: str) -> None:
        """Click on a name in lower case."""
        if name not in self.clickable():
            return
        if name == TO_SEARCH:
            self._to_search()
        elif self.page == "results":
            self._click_result(name)
        elif self.page == "item":
            self._click_item(name)
        else:
            self.page = "item"  # the way back from a sub-page

    def _click_result(self, name: str) -> None:
        if name in (PREVIOUS, NEXT):
            self.number += 1 if name == NEXT else -1
            return
        product_id = next(shown for shown in self.shown() if shown.lower() == name)
        self.item = self.shop.product(product_id)
        self.seen.add(product_id)
        self.page = "item"

    def _click_item(self, name: str) -> None:
        if name == PREVIOUS:
            self._leave_item()
            self.page = "results"
        elif name in SUB_PAGES:
            self.page = name
        elif name == BUY:
            self.page = "done"
        elif self.item:
            groups = [group for group, values in self.item.options.items() if name in values]
            self.chosen[groups[-1]] = name  # as released: of groups that share a value, the last one
