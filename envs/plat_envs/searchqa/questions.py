"""Questions over a generated encyclopaedia, with the pages that their answers come from.

1 hop        20 %   Who is the author of A Winter in Beldun?
bridge       50 %   What is the birthplace of the author of A Winter in Beldun?
3 hops       15 %   What is the country of the birthplace of the author of A Winter in Beldun?
comparison   15 %   Who was born earlier, Marena Norfen or Isa Corbel?
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

from plat_envs.instances import Candidate, draw, ready
from plat_envs.searchqa.config import SearchQAConfig
from plat_envs.searchqa.encyclopaedia import NUMBERS, RELATIONS, Encyclopaedia, encyclopaedia

_HOPS = (1,) * 20 + (2,) * 50 + (3,) * 15 + (0,) * 15  # 0: a comparison


@dataclass(frozen=True)
class Question:
    """`path`: the pages that lead to the answer, in order; `facts`: a sentence of each."""

    text: str
    answer: str
    path: tuple[str, ...] = ()
    facts: tuple[str, ...] = ()


def _chain(rng: random.Random, pages: Encyclopaedia, hops: int) -> Question | None:
    """Follow `hops` relations from a drawn entity. None if the way comes back to a page where it was."""
    entity = rng.choice(list(pages.entities.values()))
    phrase, path, facts = entity.name, [entity.name], []
    kind = entity.kind
    for _ in range(hops):
        relation = rng.choice(sorted(entity.values))
        _, kind, words = RELATIONS[relation]
        value = entity.values[relation]
        facts.append(f"{words.format(entity.name)} is {value}")
        phrase, entity = words.format(phrase), pages.entities[value]
        path.append(value)
    if len(set(path)) < len(path):
        return None
    return Question(f"{'Who' if kind == 'person' else 'What'} is {phrase}?", path[-1], tuple(path[:-1]), tuple(facts))


def _comparison(rng: random.Random, pages: Encyclopaedia) -> Question | None:
    kind = rng.choice(sorted(NUMBERS))
    first, second = rng.sample(pages.of_kind(kind), 2)
    name, words = NUMBERS[kind]
    years = {entity.name: entity.numbers[name] for entity in (first, second)}
    if first.numbers == second.numbers:
        return None
    facts = tuple(f"{entity} was {name} in {year}" for entity, year in years.items())
    return Question(words.format(*years), min(years, key=years.__getitem__), tuple(years), facts)


@lru_cache(maxsize=4096)
def generated_question(config: SearchQAConfig, split: str, seed: int) -> Question:
    """Return the question of (split, seed). The pages on its path decide the split.

    Raises BadEnvironment for an unknown split.
    """
    pages = encyclopaedia(config.encyclopaedia)

    def candidates(rng: random.Random) -> Iterator[Candidate[Question]]:
        while True:
            hops = min(rng.choice(_HOPS), config.hops)
            question = _chain(rng, pages, hops) if hops else _comparison(rng, pages)
            yield None if question is None else ready(" | ".join(sorted(question.path)), question)

    return draw("searchqa/chat", split, seed, config.shared_pool, candidates)
