"""A generated encyclopaedia: 2,000 entities of five kinds, a page of about 40 words for each, all drawn from a seed.

Names are made of few syllables, so many pages share parts of a name and are found by a search for another one.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path

from plat_envs.lucene import Postings, build
from plat_envs.retrieval.corpus import written

COUNTS = {"person": 700, "book": 500, "city": 400, "company": 300, "country": 100}
# relation -> (kind of the page, kind of the value, how a question names the value)
RELATIONS = {
    "author": ("book", "person", "the author of {}"),
    "setting": ("book", "city", "the city in which {} takes place"),
    "birthplace": ("person", "city", "the birthplace of {}"),
    "spouse": ("person", "person", "the spouse of {}"),
    "employer": ("person", "company", "the employer of {}"),
    "country": ("city", "country", "the country of {}"),
    "capital": ("country", "city", "the capital of {}"),
    "founder": ("company", "person", "the founder of {}"),
}
# kind -> (name of a number on its page, how a question compares two of them)
NUMBERS = {
    "person": ("born", "Who was born earlier, {} or {}?"),
    "book": ("published", "Which book was published earlier, {} or {}?"),
    "city": ("founded", "Which city was founded earlier, {} or {}?"),
    "company": ("established", "Which company was established earlier, {} or {}?"),
}
_YEARS = {"person": (1820, 1990), "book": (1850, 2015), "city": (900, 1850), "company": (1860, 2010)}
_SYLLABLES = (
    *("ar", "bel", "cor", "dun", "el", "fen", "gor", "hal", "is", "jor", "kan", "lor", "mar", "nor", "os", "pel"),
    *("quin", "ros", "sel", "tor", "ul", "ver", "wen", "yor", "zan"),
)
_ENDINGS = {"person": ("a", "en", "is"), "city": ("ville", "ford", "burg"), "country": ("ia", "land")}
_BOOKS = ("The {} Letters", "A Winter in {}", "The House of {}", "{} and the Sea", "The Last {}")
_COMPANIES = ("{} Works", "{} Brothers", "{} Lines", "{} & Company")
TRADES = ("painter", "engineer", "teacher", "botanist", "sailor", "lawyer", "historian", "musician")
_GENRES = ("novel", "collection of stories", "travel book", "play")
_GOODS = ("bridges", "paper", "ships", "clocks", "bicycles", "glass")
_RIVERS = ("a wide river", "a long lake", "a high plain", "the northern coast")


@dataclass
class Entity:
    """`values`: relation -> name of another entity; `numbers`: name -> year."""

    name: str
    kind: str
    values: dict[str, str] = field(default_factory=dict)
    numbers: dict[str, int] = field(default_factory=dict)
    text: str = ""


@dataclass(frozen=True, eq=False)
class Encyclopaedia:
    """`entities`: name -> entity; `index`: of the pages, whose ids are the names."""

    entities: dict[str, Entity]
    index: Postings

    def of_kind(self, kind: str) -> list[Entity]:
        """Return the entities of a kind, in the order in which they were made."""
        return [entity for entity in self.entities.values() if entity.kind == kind]


@lru_cache(maxsize=2)
def encyclopaedia(seed: int) -> Encyclopaedia:
    """Return the encyclopaedia of a seed."""
    rng = random.Random(f"encyclopaedia/{seed}")
    entities: dict[str, Entity] = {}
    for kind, count in COUNTS.items():
        while sum(entity.kind == kind for entity in entities.values()) < count:
            name = _name(rng, kind)
            entities.setdefault(name, Entity(name, kind))
    by_kind = {kind: [name for name, entity in entities.items() if entity.kind == kind] for kind in COUNTS}
    for entity in entities.values():
        for relation, (kind, target, _) in RELATIONS.items():
            if kind == entity.kind:
                entity.values[relation] = rng.choice([name for name in by_kind[target][:400] if name != entity.name])
        if entity.kind in NUMBERS:
            entity.numbers[NUMBERS[entity.kind][0]] = rng.randint(*_YEARS[entity.kind])
        entity.text = _page(rng, entity)
    return Encyclopaedia(entities, build((name, f"{name}\n{entity.text}") for name, entity in entities.items()))


def syllables(rng: random.Random, count: int) -> str:
    """Return a drawn word of so many syllables, which begins with a capital letter."""
    return "".join(rng.choices(_SYLLABLES, k=count)).title()


def _name(rng: random.Random, kind: str) -> str:
    def word(least: int, most: int) -> str:
        return syllables(rng, rng.randint(least, most))

    if kind == "person":
        return f"{word(1, 2)}{rng.choice(_ENDINGS[kind])} {word(2, 2)}"
    if kind == "book":
        return rng.choice(_BOOKS).format(word(2, 2))
    if kind == "company":
        return rng.choice(_COMPANIES).format(word(1, 2))
    return f"{word(1, 2)}{rng.choice(_ENDINGS[kind])}"


def _page(rng: random.Random, entity: Entity) -> str:
    name, values = entity.name, entity.values
    year = next(iter(entity.numbers.values()), 0)
    if entity.kind == "person":
        return (
            f"{name} ({year} was the year of birth) was a {rng.choice(TRADES)} who was born in "
            f"{values['birthplace']}. After school {name} worked for {values['employer']} for many years, and was "
            f"married to {values['spouse']}. Letters of both are kept in a small museum."
        )
    if entity.kind == "book":
        return (
            f"{name} is a {rng.choice(_GENRES)} by {values['author']}, which was published in {year}. The story takes "
            f"place in {values['setting']}, at the time of a hard winter. It was read widely, was printed again in "
            f"several languages, and is still taught at schools today."
        )
    if entity.kind == "city":
        return (
            f"{name} is a city in {values['country']}, by {rng.choice(_RIVERS)}. It was founded in {year} and grew "
            f"with the trade in {rng.choice(_GOODS)}. The old town has narrow streets, a market hall, and a station "
            f"from which trains leave every hour."
        )
    if entity.kind == "company":
        return (
            f"{name} is a company that makes {rng.choice(_GOODS)}. It was established in {year} by "
            f"{values['founder']}, who led it for two decades. Today it has about {rng.randint(2, 90)} hundred workers "
            f"in four places, and sells to customers abroad."
        )
    return (
        f"{name} is a country whose capital is {values['capital']}. It lies between mountains and a cold sea, and has "
        f"about {rng.randint(2, 60)} million people. Most of them live near the coast, where fishing, farming and "
        f"trade have been the main work for centuries."
    )


# Generated pages as a corpus: the encyclopaedia, and behind it plain pages of further people, as many as wanted.


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
