"""A visit to a shop: the page that is open, and what can be clicked on it.

    search -> results (a page of them at a time) -> item -> description, features or reviews -> item -> done

A click on something that the page does not have changes nothing. A search is possible on every page.
"""

from __future__ import annotations

from typing import Any

from plat_envs.shop.product import Product, Shop

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
