"""Products, goals, and what a shop offers to those who play in it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol


@dataclass(frozen=True)
class Product:
    """One product.

    options   name of a group -> its values, in lower case
    query     the search under which the shop lists it; products of one query are of one type
    path      its departments, from the most general to the most special
    nouns     the nouns of its title in lower case, a repeated one as often as it stands there
    """

    id: str
    title: str
    price: float
    query: str
    path: tuple[str, ...]
    nouns: tuple[str, ...]
    options: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    attributes: tuple[str, ...] = ()
    bullets: tuple[str, ...] = ()
    description: str = ""
    price_tag: str = ""


@dataclass(frozen=True)
class Goal:
    """What is to be bought: a product like `product`, for at most `limit`."""

    product: str
    text: str
    attributes: tuple[str, ...]
    options: tuple[str, ...]
    limit: float
    query: str
    path: tuple[str, ...]
    nouns: tuple[str, ...]


class Shop(Protocol):
    """Products, and the ranking of its search."""

    @property
    def window(self) -> int:
        """How many products a page of results has."""

    def product(self, product_id: str) -> Product:
        """Return the product of this id."""

    def search(self, text: str) -> tuple[str, ...]:
        """Return the ids of the products that are found, best first. Accepts any text."""
