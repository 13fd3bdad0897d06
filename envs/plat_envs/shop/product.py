"""The options of `webshop`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from plat_envs.environment_errors import BadEnvironment, check_choice, check_range
from plat_envs.turns.episode import EpisodeConfig


@dataclass(frozen=True)
class WebShopConfig(EpisodeConfig):
    turns: int = 7  # searches and clicks in an episode; the released task has 9 [turns]
    actions_per_turn: int = 1  # pages change with every action, so it is always 1 [actions]
    reward: str = "binary"  # as released: 1 for a perfect purchase, else 0 | dense: the score
    data: str = "generated"  # where the products of the chat rendering come from: generated | file
    path: str = ""  # of the products, items_shuffle*.json, where `data` is file
    cache: str = ""  # folder for the converted files; empty: the folder of `path`
    goals: str = "synthetic"  # as released | human: instructions that people wrote; where `data` is file
    split: str = "product"  # all goals of a product are in one split | goal, as released
    products: int = 4000  # of a generated shop; an evaluation of 512 goals needs as many in each split [products]
    catalogue: int = 0  # the seed of a generated shop

    def __post_init__(self) -> None:
        super().__post_init__()
        check_range("actions_per_turn", self.actions_per_turn, 1, 1)
        check_choice("reward", self.reward, ("binary", "dense"))
        check_choice("data", self.data, ("generated", "file"))
        check_choice("goals", self.goals, ("synthetic", "human"))
        check_choice("split", self.split, ("product", "goal"))
        check_range("products", self.products, 50, 20_000)
        check_range("catalogue", self.catalogue, 0, 2**31)
        if self.data == "file" and not self.path:
            raise BadEnvironment("webshop: data is 'file' but path is empty", fix="path: the file items_shuffle*.json")
        if self.data == "generated" and self.goals == "human":
            raise BadEnvironment("webshop: a generated shop has no human goals", fix="goals: synthetic, or data: file")


# Products, goals, and what a shop offers to those who play in it.


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
