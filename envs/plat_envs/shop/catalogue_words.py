"""The words of a generated shop: departments with their types of products, attributes, options and brands."""

from __future__ import annotations

from dataclasses import dataclass

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
