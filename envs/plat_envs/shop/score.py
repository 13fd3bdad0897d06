"""The score of a purchase, from 0 to 1, as WebShop defines it.

    type x (attributes found + options chosen + 1 if the price is within the limit) / (attributes + options + 1)

The type is 0 if the titles share no noun, .1 if they share less than a tenth of the goal's, .5 if both were listed
under other searches and departments and share at most a fifth, and else 1.
"""

from __future__ import annotations

from collections.abc import Iterable

from plat_envs.shop.colors import plain_color
from plat_envs.shop.product import Goal, Product
from plat_envs.shop.similarity import similarity

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
