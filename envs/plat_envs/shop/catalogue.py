"""Generated products and goals. Each is drawn from the shop's seed and its own id alone.

The nouns of a title are known: brand, model, the two words of the type, and the use. So a product of another type
shares at most a fifth of them, unless the brand and the use are the same.
"""

from __future__ import annotations

import math
import random
import string
from collections.abc import Mapping

from plat_envs.shop.catalogue_words import COLORS, DEPARTMENTS, PACKS, SYLLABLES, USES, Department
from plat_envs.shop.product import Goal, Product

GOALS = 2  # of each product
_SPREAD = 0.5  # standard deviation of the logarithm of prices of one type
NO_LIMIT = 1_000_000.0


def product_ids(seed: int, count: int) -> tuple[str, ...]:
    """Return the ids of a shop of `count` products; a smaller shop has the first of a larger one."""
    rng = random.Random(f"webshop/{seed}")
    ids: dict[str, None] = {}
    while len(ids) < count:
        ids["B0" + "".join(rng.choices(string.ascii_uppercase + string.digits, k=8))] = None
    return tuple(ids)


def make_product(seed: int, product_id: str) -> Product:
    """Return the product of this id in the shop of this seed."""
    rng = random.Random(f"webshop/{seed}/{product_id}")
    department = rng.choice(DEPARTMENTS)
    kind = rng.choice(list(department.types))
    attributes = tuple(rng.sample(department.attributes, rng.randint(3, 5)))
    brand = "".join(rng.choices(SYLLABLES, k=rng.randint(2, 3)))
    model, use = f"{rng.choice(SYLLABLES)}{rng.randint(10, 99)}", rng.choice(USES)
    price = round(department.types[kind] * math.exp(rng.gauss(0, _SPREAD)), 2)
    first, second, *_ = attributes
    return Product(
        id=product_id,
        title=f"{brand.title()} {model.upper()} {kind.title()} for {use.title()}, {first.title()}",
        price=price,
        query=kind,
        path=(department.name, f"{department.name} {kind.split()[1]}", kind),
        nouns=(brand, model, *kind.split(), use),
        options=_options(rng, department),
        attributes=attributes,
        bullets=tuple(f"{attribute.capitalize()}: {_PRAISE[rng.randrange(len(_PRAISE))]}." for attribute in attributes),
        description=f"This {kind} by {brand.title()} is {first} and {second}. {rng.choice(_ADVICE)} {use}.",
        price_tag=f"${price}",
    )


_PRAISE = ("made to last", "tested for you", "made with care", "simple to keep", "ready when you are")
_ADVICE = ("A good choice for the", "Bring it along to the", "People like it for the", "It fits every")


def _options(rng: random.Random, department: Department) -> dict[str, tuple[str, ...]]:
    """Draw none to three groups of options with two to four values each."""
    groups = {"color": COLORS, "size": department.sizes, "pack": PACKS}
    names = sorted(rng.sample(sorted(groups), rng.choice((0, 1, 1, 2, 2, 3))))
    return {name: tuple(rng.sample(groups[name], rng.randint(2, 4))) for name in names}


def price_limit(price: float, goal_id: str) -> float:
    """Return the highest price of a goal, drawn by its id from the next multiples of ten; NO_LIMIT above 970."""
    above = [10.0 * tens for tens in range(1, 100) if 10.0 * tens > price][:4]
    if len(above) < 2:
        return NO_LIMIT
    return max(random.Random(f"webshop/limit/{goal_id}").sample(above, 2))


def options_text(options: Mapping[str, str]) -> str:
    """Return the part of an instruction that names the wanted options; "" without any."""
    return " with " + ", and ".join(f"{name}: {value}" for name, value in options.items()) if options else ""


def limit_text(limit: float) -> str:
    """Return the end of an instruction that states the limit; "" without one."""
    return f", and price lower than {limit:.2f} dollars" if limit < NO_LIMIT else ""


def make_goal(seed: int, product: Product, number: int) -> Goal:
    """Return the goal of this number (below GOALS) of a product: some of its attributes, and a value of each option."""
    rng = random.Random(f"webshop/{seed}/{product.id}/{number}")
    attributes = tuple(rng.sample(product.attributes, rng.randint(1, 3)))
    chosen = {name: rng.choice(values) for name, values in product.options.items()}
    limit = price_limit(product.price, f"{seed}/{product.id}/{number}")
    text = f"Find a {product.query} that is {', '.join(attributes)}{options_text(chosen)}{limit_text(limit)}"
    return Goal(product.id, text, attributes, tuple(chosen.values()), limit, product.query, product.path, product.nouns)
