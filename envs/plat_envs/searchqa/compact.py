"""The compact rendering of `searchqa`.

    searchqa where is who wrote e3 born ? .. e3 : e5 wrote e3 . e2 wrote e0 4 <think>

Between the question and the number of turns left stand the three newest pages, each with its entity and its facts. All
are padded with `_`, so that a word stands at the same place in every prompt. `search e3` shows the page of e3;
`finish e1` answers.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

from plat_envs.instances import Candidate, draw, ready
from plat_envs.searchqa.config import SearchQAConfig, Seeker
from plat_envs.stand_in import ENTITIES, padded

# The world of one compact instance: eight entities, eight facts with shuffled roles, and a question.
#
#     page of a book     e5 wrote e3
#     page of a person   e5 born in e1
#     page of a place    e6 capital of e1
#
# The roles of the entities are drawn for every instance, so nothing can be remembered: the answer must be looked up.

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


SHOWN = 3  # newest pages that are shown
QUESTION_WORDS, PAGE_WORDS = 9, 11
_ENTITY = "|".join(ENTITIES)
_CLAUSE = re.compile(
    rf"(?:({_ENTITY}) wrote ({_ENTITY})|({_ENTITY}) born in ({_ENTITY})|({_ENTITY}) capital of ({_ENTITY})"
    rf"|who wrote (?:{_ENTITY})|where is (?:{_ENTITY}) born|capital of (?:{_ENTITY})|(\d{{1,2}}) more)"
)
_ACTION = re.compile(rf"(?:search|finish) (?:{_ENTITY})")


class CompactSeeker(Seeker):
    rules = ""  # the compact rendering has no instructions
    world: SmallWorld

    def _load(self, seed: int, noise: int) -> None:
        self.world = small_world(self.config, self.split, seed)
        self.right = self.world.answer
        self.pages: list[str] = []  # entities whose pages are shown, the newest last

    @property
    def problem(self) -> str:
        return ground(self.world)

    def _parse(self, action: str) -> tuple[str | None, str]:
        verb, _, rest = action.partition(" ")
        if verb == "search":
            return rest, ""
        return None, rest if verb == "finish" else action

    def _worth(self, said: str) -> float:
        """Return 1 for the right entity alone. Its F1 would pay a policy that names five entities without a search."""
        return float(said == self.right)

    def _search(self, query: str) -> bool:
        """Show the page of the first entity in the query, and further pages that name it."""
        entity = next((word for word in query.split() if word in ENTITIES), "")
        if not entity:
            return False
        naming = [other for other in ENTITIES if other != entity and self._names(other, entity)]
        found = [entity, *naming][: self.config.results or 1]
        before = list(self.pages)
        self.pages = [*(page for page in self.pages if page not in found), *reversed(found)][-SHOWN:]
        return self.pages != before

    def _names(self, page: str, entity: str) -> bool:
        return any(entity in (fact.of, fact.value) for fact in self.world.page(page))

    # --- the prompt ---------------------------------------------------------------------------------------------------

    def _compact(self) -> str:
        pages = [f"{page} : {' . '.join(fact.text for fact in self.world.page(page))}" for page in self.pages]
        places = [*[""] * (SHOWN - len(pages)), *pages]
        shown = [padded(f"{self.world.question} ?", QUESTION_WORDS), *(padded(page, PAGE_WORDS) for page in places)]
        return " ".join(["searchqa", *shown, str(self._budget()), "<think>"])

    # --- demonstrations -----------------------------------------------------------------------------------------------

    def _known(self) -> tuple[list[str], str]:
        """Follow the question as far as the pages shown allow: return the facts used, and the entity where it ends."""
        entity, used = self.world.start, []
        for relation in self.world.chain:
            if entity not in self.pages:
                break
            fact = next(f for f in self.world.facts if (f.relation, f.of) == (relation, entity))
            used.append(fact.text)
            entity = fact.value
        return used, entity

    def _good_answer(self, rng: random.Random) -> str:
        used, entity = self._known()
        if len(used) == len(self.world.chain):
            return f"finish {entity}"
        return f"search {entity}" if self.turns_left > 1 else f"finish {entity}"  # as far as the pages lead

    def _random_answer(self, rng: random.Random) -> str:
        return f"{rng.choice(('search', 'finish'))} {rng.choice(ENTITIES)}"

    def _facts(self, answer: str, several: bool) -> str:
        used, entity = self._known()
        asked = [] if len(used) == len(self.world.chain) else [sub_question(self.world.chain[len(used)], entity)]
        facts = [*used[-1:], *asked]
        if several and len(facts) == 1:
            facts.append(f"{self._budget()} more")
        return f"{' and '.join(facts if several else facts[:1])} so {answer}"

    def _wrong_facts(self, rng: random.Random) -> tuple[str, str]:
        while True:
            first, second = rng.sample(ENTITIES, 2)
            fact = rng.choice((f"{first} wrote {second}", f"{second} born in {first}", f"{first} capital of {second}"))
            if rng.random() < 0.5:
                answer, further = f"search {first}", sub_question(rng.choice(RELATIONS), first)
            else:
                answer, further = f"finish {first}", f"{self._budget()} more"
            said = f"{fact} and {further} so {answer}"
            if not all(self._facts_stated(said)):
                return said, answer

    def _facts_stated(self, reasoning: str) -> list[bool]:
        stated, so, action = reasoning.rpartition(" so ")
        clauses = stated.split(" and ")
        if not so or not _ACTION.fullmatch(action) or not all(map(_CLAUSE.fullmatch, clauses)):
            return []
        shown = {fact.text for page in self.pages for fact in self.world.page(page)}
        used, entity = self._known()
        shown |= {f"{self._budget()} more"}
        if len(used) < len(self.world.chain):
            shown |= {sub_question(self.world.chain[len(used)], entity)}
        return [clause in shown for clause in clauses]

    # --- scripted policies --------------------------------------------------------------------------------------------

    def blind(self) -> str:
        """Finish with the first entity of the right kind, without a search."""
        return f"finish {self.world.of_kind(self.world.chain[-1])[0]}"

    def greedy(self) -> str:
        """Search once, and finish with what that page says if it answers the question, else as the blind policy."""
        if not self.pages:
            return f"search {self.world.start}"
        used, entity = self._known()
        return f"finish {entity}" if len(used) == len(self.world.chain) else self.blind()
