"""Generated products and goals, each drawn from the shop's seed and its own id alone, and the shops that have them.

The nouns of a title are known: brand, model, the two words of the type, and the use. So a product of another type
shares at most a fifth of them, unless the brand and the use are the same.
"""

from __future__ import annotations

import math
import random
import string
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Protocol

from plat_envs.environment_errors import BadEnvironment
from plat_envs.instances import source_split, split_of
from plat_envs.shop.product import Goal, Product, Shop, WebShopConfig

if TYPE_CHECKING:
    from plat_envs.lucene import Postings

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


# The words of a generated shop: departments with their types of products, attributes, options and brands.

_CLOTHES = ("small", "medium", "large", "x-large", "xx-large")
_INCHES = ("6 inch", "8 inch", "10 inch", "12 inch")
_VOLUMES = ("2 ounce", "4 ounce", "8 ounce", "16 ounce")
_LENGTHS = ("3 ft", "6 ft", "10 ft", "15 ft")


@dataclass(frozen=True)
class Department:
    """`types`: kinds of products, each of two nouns, with a usual price; `sizes`: what its sizes are."""

    name: str
    types: dict[str, float]
    attributes: tuple[str, ...]
    sizes: tuple[str, ...]


DEPARTMENTS = (
    Department(
        "home kitchen",
        {
            **{"water bottle": 18.0, "frying pan": 34.0, "cutting board": 22.0, "storage jar": 14.0},
            **{"coffee mug": 12.0, "mixing bowl": 19.0, "table lamp": 39.0, "wall clock": 27.0},
        },
        (
            *("bpa free", "dishwasher safe", "stainless steel", "non stick", "easy clean", "heat resistant"),
            *("space saving", "lead free", "hand painted", "leak proof", "microwave safe", "eco friendly"),
        ),
        _INCHES,
    ),
    Department(
        "clothing",
        {
            **{"rain jacket": 58.0, "tennis shoes": 64.0, "wool sweater": 47.0, "cotton shirt": 23.0},
            **{"ankle socks": 11.0, "yoga pants": 29.0, "straw hat": 21.0, "leather belt": 26.0},
        },
        (
            *("machine wash", "long sleeve", "quick drying", "moisture wicking", "classic fit", "elastic waist"),
            *("button closure", "slim fit", "hand wash", "uv protection", "tummy control", "loose fit"),
        ),
        _CLOTHES,
    ),
    Department(
        "electronics",
        {
            **{"phone charger": 17.0, "desk speaker": 49.0, "studio headphones": 88.0, "camera tripod": 42.0},
            **{"gaming keyboard": 61.0, "screen protector": 9.0, "power bank": 31.0, "extension cable": 15.0},
        },
        (
            *("fast charging", "noise cancelling", "wireless bluetooth", "high speed", "splash resistant"),
            *(
                "plug play",
                "gold plated",
                "hands free",
                "long lasting",
                "carrying case",
                "high definition",
                "stereo sound",
            ),
        ),
        _LENGTHS,
    ),
    Department(
        "beauty",
        {
            **{"face cream": 24.0, "hair oil": 16.0, "lip balm": 8.0, "body lotion": 13.0},
            **{"nail polish": 10.0, "herbal shampoo": 15.0, "sun spray": 18.0, "eye mask": 12.0},
        },
        (
            *("fragrance free", "cruelty free", "paraben free", "sulfate free", "dry skin", "sensitive skin"),
            *("natural ingredients", "tea tree", "anti aging", "hyaluronic acid", "travel size", "dark circles"),
        ),
        _VOLUMES,
    ),
    Department(
        "garden outdoor",
        {
            **{"garden chair": 72.0, "camping tent": 129.0, "picnic blanket": 33.0, "bicycle lock": 28.0},
            **{"tool box": 45.0, "plant pot": 20.0, "dog leash": 16.0, "sleeping bag": 67.0},
        },
        (
            *("weather resistant", "easy assemble", "light weight", "non slip", "double sided", "heavy duty"),
            *("rust proof", "foldable frame", "battery powered", "quick release", "water proof", "shock absorbing"),
        ),
        ("one size", "small", "large", "extra large"),
    ),
)
COLORS = (
    *("red", "blue", "green", "black", "white", "grey", "pink", "yellow"),
    *("navy blue", "rose gold", "forest green", "light purple"),
)
PACKS = ("single", "pack of 2", "pack of 4", "pack of 10")
USES = (
    *("travel", "office", "school", "family", "beach", "winter", "summer", "gym", "garage", "dorm"),
    *("birthday", "wedding", "party", "hobby", "commute", "weekend", "studio", "cabin", "boat", "balcony"),
)
SYLLABLES = ("ba", "dor", "el", "fin", "gal", "hu", "ki", "lum", "mo", "nar", "ost", "pra", "ru", "sel", "tov", "zen")


# The shops of the chat rendering, and which goal an instance has.

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
        from plat_envs.lucene import build

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
