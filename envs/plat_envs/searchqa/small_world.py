"""The world of one compact instance: eight entities, eight facts with shuffled roles, and a question.

    page of a book     e5 wrote e3
    page of a person   e5 born in e1
    page of a place    e6 capital of e1

The roles of the entities are drawn for every instance, so nothing can be remembered: the answer must be looked up.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

from plat_envs.instances import Candidate, draw, ready
from plat_envs.searchqa.config import SearchQAConfig
from plat_envs.stand_in.vocabulary import ENTITIES

RELATIONS = ("wrote", "born", "capital")  # in the order in which a question follows them
BOOKS, PEOPLE = 2, 3  # the other entities are places
_QUESTIONS = {"wrote": "who wrote {}", "born": "where is {} born", "capital": "capital of {}"}
_FACTS = {"wrote": "{1} wrote {0}", "born": "{0} born in {1}", "capital": "{1} capital of {0}"}


@dataclass(frozen=True)
class Fact:
    """What a page says: `of` is the entity of the page, and `value` answers the question about it."""

    relation: str
    of: str
    value: str

    @property
    def text(self) -> str:
        return _FACTS[self.relation].format(self.of, self.value)


@dataclass(frozen=True)
class SmallWorld:
    """`start`: the entity that the question names; `chain`: the relations to follow from it; `lures`: page -> fact."""

    facts: tuple[Fact, ...]
    start: str
    chain: tuple[str, ...]
    lures: tuple[tuple[str, Fact], ...]

    @property
    def question(self) -> str:
        text = self.start
        for relation in self.chain:
            text = _QUESTIONS[relation].format(text)
        return text

    def page(self, entity: str) -> tuple[Fact, ...]:
        """Return the facts on the page of an entity, the lure first if it has a smaller text."""
        own = [fact for fact in self.facts if fact.of == entity]
        own += [lure for page, lure in self.lures if page == entity]
        return tuple(sorted(own, key=lambda fact: fact.text))

    def value(self, relation: str, entity: str) -> str:
        """Return the value of a relation of an entity."""
        return next(fact.value for fact in self.facts if (fact.relation, fact.of) == (relation, entity))

    @property
    def answer(self) -> str:
        entity = self.start
        for relation in self.chain:
            entity = self.value(relation, entity)
        return entity

    def of_kind(self, relation: str) -> list[str]:
        """Return the entities that can be a value of this relation, in order."""
        people = {fact.of for fact in self.facts if fact.relation == "born"}
        places = {fact.of for fact in self.facts if fact.relation == "capital"}
        return sorted(people if relation == "wrote" else places)


def sub_question(relation: str, entity: str) -> str:
    """Return the question about one entity, e.g. "who wrote e3"."""
    return _QUESTIONS[relation].format(entity)


def _draw(rng: random.Random, config: SearchQAConfig) -> SmallWorld:
    entities = list(ENTITIES)
    rng.shuffle(entities)
    books, people, places = entities[:BOOKS], entities[BOOKS : BOOKS + PEOPLE], entities[BOOKS + PEOPLE :]
    authors = rng.sample(people, BOOKS)
    facts = [Fact("wrote", book, author) for book, author in zip(books, authors, strict=True)]
    facts += [Fact("born", person, rng.choice(places)) for person in people]
    facts += [Fact("capital", place, rng.choice([other for other in places if other != place])) for place in places]
    hops = rng.randint(1, config.hops)
    first = rng.randint(0, len(RELATIONS) - hops)
    start = rng.choice((books, people, places)[first])
    lures = []
    for entity in rng.sample(entities, config.distractors):
        own = next(fact for fact in facts if fact.of == entity)
        others = [fact for fact in facts if fact.relation == own.relation and fact.of != entity]
        lures.append((entity, rng.choice(others)))
    return SmallWorld(tuple(facts), start, RELATIONS[first : first + hops], tuple(sorted(lures, key=str)))


def ground(world: SmallWorld) -> str:
    """Return a text of the question and all facts, whatever their order and the lures."""
    return f"{world.question} ? {' . '.join(sorted(fact.text for fact in world.facts))}"


@lru_cache(maxsize=4096)
def small_world(config: SearchQAConfig, split: str, seed: int) -> SmallWorld:
    """Return the world of (split, seed). Raises BadEnvironment for an unknown split."""

    def candidates(rng: random.Random) -> Iterator[Candidate[SmallWorld]]:
        while True:
            world = _draw(rng, config)
            yield ready(ground(world), world)

    return draw("searchqa", split, seed, config.shared_pool, candidates)
