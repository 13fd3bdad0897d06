"""Generated pages as a corpus: the encyclopaedia, and behind it plain pages of further people, as many as wanted."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from pathlib import Path

from plat_envs.retrieval.file_hash import written
from plat_envs.searchqa.encyclopaedia import TRADES, encyclopaedia, syllables


def write_pages(path: Path, count: int, seed: int) -> None:
    """Write `count` pages, in the form of published corpora. Raises BadEnvironment if the file cannot be written.

    A page depends on the seed and its number alone, so a longer corpus begins with a shorter one.
    """
    with written(path) as file:
        for number, (name, text) in zip(range(count), _pages(seed), strict=False):
            page = {"id": str(number), "contents": f'"{name}"\n{text}'}
            file.write(json.dumps(page).encode() + b"\n")


def _pages(seed: int) -> Iterator[tuple[str, str]]:
    """Return endless pages: name and text."""
    entities = encyclopaedia(seed).entities
    for entity in entities.values():
        yield entity.name, entity.text
    cities = [entity.name for entity in entities.values() if entity.kind == "city"]
    rng = random.Random(f"further pages/{seed}")
    number = 0
    while True:
        # The number makes it unique.
        name = f"{syllables(rng, 2)} {syllables(rng, 2)} {syllables(rng, 1)}{number}"
        year, trade, town, later = rng.randint(1700, 1999), rng.choice(TRADES), *rng.choices(cities, k=2)
        friend = f"{syllables(rng, 2)} {syllables(rng, 2)}"
        text = (
            f"{name} was a {trade} from {town}, who was born in {year} and moved to {later} at the age of "
            f"{rng.randint(12, 60)}. Most of the work was done together with {friend}, and is described in a book of "
            f"{rng.randint(80, 900)} pages, which few libraries have."
        )
        yield name, text
        number += 1
