"""Colours of options: a value such as `06-dark red` counts as the first known colour that it contains."""

from __future__ import annotations

from functools import lru_cache

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
