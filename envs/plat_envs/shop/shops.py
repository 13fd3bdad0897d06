"""The shops of the chat rendering, and which goal an instance has."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Protocol

from plat_envs.environment_errors import BadEnvironment
from plat_envs.instances import source_split, split_of
from plat_envs.shop.catalogue import GOALS, make_goal, make_product, product_ids
from plat_envs.shop.product import Goal, Product, Shop, WebShopConfig

if TYPE_CHECKING:
    from plat_envs.engines.postings import Postings

HITS = 50  # results of a search, at most
WINDOW = 10  # on a page


class GoalShop(Shop, Protocol):
    """A shop and the goals that it has."""

    @property
    def goals(self) -> tuple[str, ...]:
        """Their ids: the id of a product, `/`, and what tells its goals apart."""

    def goal(self, goal_id: str) -> Goal:
        """Return the goal of this id."""


def searched_text(product: Product) -> str:
    """Return what a search looks at: title, description, first bullet and options."""
    options = ", and ".join(f"{name}: {', '.join(values)}" for name, values in product.options.items())
    return " ".join([product.title, product.description, *product.bullets[:1], options]).lower()


@dataclass(frozen=True)
class GeneratedShop:
    """The shop of a seed with `count` products."""

    seed: int
    count: int
    window: int = WINDOW

    @cached_property
    def _products(self) -> dict[str, Product]:
        return {product_id: make_product(self.seed, product_id) for product_id in product_ids(self.seed, self.count)}

    @cached_property
    def index(self) -> Postings:
        """The search index, made when it is first needed."""
        from plat_envs.engines.postings import build

        return build((product.id, searched_text(product)) for product in self._products.values())

    @cached_property
    def goals(self) -> tuple[str, ...]:
        return tuple(f"{product_id}/{number}" for product_id in self._products for number in range(GOALS))

    def goal(self, goal_id: str) -> Goal:
        product_id, _, number = goal_id.partition("/")
        return make_goal(self.seed, self._products[product_id], int(number))

    def product(self, product_id: str) -> Product:
        return self._products[product_id]

    def search(self, text: str) -> tuple[str, ...]:
        return tuple(product_id for product_id, _ in self.index.search(text, HITS))


@lru_cache(maxsize=4)
def generated_shop(seed: int, count: int) -> GeneratedShop:
    """Return the shop; one object for equal arguments, because it is large."""
    return GeneratedShop(seed, count)


def goals_of_split(shop: GoalShop, config: WebShopConfig, split: str) -> list[str]:
    """Return the ids of the goals of a split, in the shop's order.

    The hash of the product's id decides, or with `split: goal` that of the goal's. Real data train no base model:
    there, `train` has the goals of `base` too. Raises BadEnvironment for an unknown split, or if it has no goal.
    """
    wanted = source_split(split, config.shared_pool)
    splits = ("train", "base") if config.data == "file" and wanted == "train" else (wanted,)
    whole = config.split == "product"
    chosen = [goal for goal in shop.goals if split_of(goal.partition("/")[0] if whole else goal) in splits]
    if not chosen:
        raise BadEnvironment(f"webshop: no goal for split {split!r}", fix="more products, or shared_pool: true")
    return chosen
