"""Products, the options of `webshop`, and the score of a purchase, from 0 to 1, as WebShop defines it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
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


# The score of a purchase, from 0 to 1, as WebShop defines it.
#
#     type x (attributes found + options chosen + 1 if the price is within the limit) / (attributes + options + 1)
#
# The type is 0 if the titles share no noun, .1 if they share less than a tenth of the goal's, .5 if both were listed
# under other searches and departments and share at most a fifth, and else 1.

ALIKE = 85  # texts above this similarity count as equal


def score(product: Product, chosen: Iterable[str], goal: Goal) -> float:
    """Return the score of buying `product` with the chosen values of its options."""
    found = sum(has_attribute(product, attribute) for attribute in goal.attributes)
    found += matched_options(chosen, goal) + (product.price <= goal.limit)
    return type_factor(product, goal) * found / (len(goal.attributes) + len(goal.options) + 1)


def type_factor(product: Product, goal: Goal) -> float:
    """Return 0, .1, .5 or 1: how much the product is of the goal's kind."""
    shared = len(set(product.nouns) & set(goal.nouns)) / len(goal.nouns) if goal.nouns else 0.2
    if shared == 0:
        return 0.0
    if shared < 0.1:
        return 0.1
    listed_alike = product.query == goal.query or len(set(product.path) & set(goal.path)) >= 2
    return 1.0 if listed_alike or shared > 0.2 else 0.5


def has_attribute(product: Product, attribute: str) -> bool:
    """Return True if the product lists an attribute like this one, or one of its texts contains it."""
    if any(similarity(own, attribute) > ALIKE for own in product.attributes):
        return True
    texts = (product.title, " ".join(product.bullets), product.description)
    return any(attribute in text.lower() for text in texts)


def matched_options(chosen: Iterable[str], goal: Goal) -> int:
    """Return how many of the goal's options are like one that was chosen."""
    values = list(chosen)
    return sum(any(matches(value, option) for value in values) for option in goal.options)


def matches(value: str, option: str) -> bool:
    """Return True if a chosen value counts as an option of the goal. Shades of one colour do."""
    return similarity(plain_color(value), plain_color(option)) > ALIKE


# Colours of options: a value such as `06-dark red` counts as the first known colour that it contains.

# In the order in which they are looked for. Scores depend on it: `light green` is green, and so is `dark green`.
COLORS = tuple(
    (
        "alabaster apricot aqua ash asphalt azure banana beige black blue blush bordeaux bronze brown burgundy camel "
        "camo caramel champagne charcoal cheetah chestnut chocolate christmas coffee cognac copper coral cranberry "
        "cream crystal dark denim eggplant elephant espresso fuchsia gold granite grape graphite grass gray green grey "
        "heather indigo ivory ivy khaki lavender lemon leopard light lilac lime magenta maroon mauve merlot midnight "
        "mint mocha multicolor mushroom mustard natural navy nude olive orange peach pewter pink plum purple rainbow "
        "red rose royal rust sand sapphire seashell silver skull slate steel stone stonewash sunflower tan taupe teal "
        "tiger turquoise violet walnut wheat white wine yellow"
    ).split()
)


@lru_cache(maxsize=65536)
def plain_color(value: str) -> str:
    """Return the first of COLORS that the value contains; the value itself if it contains none."""
    return next((color for color in COLORS if color in value), value)


# The similarity of two short texts, from 0 to 100: the token-set ratio of the libraries for fuzzy matching.
#
# Words are compared as sets: what both texts have, against what both have together with the rest of either. Two texts
# are as similar as the most similar pair of the three.

_NOT_A_WORD = re.compile(r"[\W_]+")
_ACCENTED = dict.fromkeys(range(128, 256))  # as in those libraries, which drop these letters and no others


def common_length(first: str, second: str) -> int:
    """Return the length of the longest common subsequence of two texts."""
    places: dict[str, int] = {}
    for position, character in enumerate(first):
        places[character] = places.get(character, 0) | 1 << position
    everywhere = (1 << len(first)) - 1
    row = everywhere  # a zero for each character of `first` at which the subsequence grows
    for character in second:
        matches = row & places.get(character, 0)
        row = (row + matches | row - matches) & everywhere
    return len(first) - row.bit_count()


def ratio(first: str, second: str) -> int:
    """Return twice the common length over the length of both, in whole percent; 0 if one text is empty."""
    if not first or not second:
        return 0
    return round(200 * common_length(first, second) / (len(first) + len(second)))


@lru_cache(maxsize=65536)
def similarity(first: str, second: str) -> int:
    """Return the token-set ratio. Only letters and digits count, and case does not."""
    words, others = (set(_NOT_A_WORD.sub(" ", text.translate(_ACCENTED)).lower().split()) for text in (first, second))
    if not words or not others:
        return 0
    both = " ".join(sorted(words & others))
    one = " ".join([both, *sorted(words - others)]).strip()
    other = " ".join([both, *sorted(others - words)]).strip()
    return max(ratio(both, one), ratio(both, other), ratio(one, other))
