"""Questions with the pages that their answers come from: over a generated encyclopaedia, or real ones.

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

from plat_envs.data import Row, of_split, rows_of
from plat_envs.environment_errors import BadEnvironment
from plat_envs.instances import Candidate, draw, ready, source_split, split_of
from plat_envs.searchqa.config import HOTPOTQA, SearchQAConfig
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


# Real questions: rows with `question` and `answer`, as in HotpotQA, from files or the hub.

CONFIGURATION = "distractor"  # of HotpotQA: the other one has the same questions for training


def question_of_row(config: SearchQAConfig, split: str, seed: int) -> Question:
    """Return the question of a seed: seed 0 gives the first of the split, and so on; after the last, the first again.

    Raises BadEnvironment if the rows cannot be read, have no question or answer, or none is in the split.
    """
    pool = _pool(config, split)
    return pool[seed % len(pool)]


@lru_cache(maxsize=16)
def _pool(config: SearchQAConfig, split: str) -> list[Question]:
    """Return the questions of a split.

    With `validation_path`, validation and held-out questions are of that file; those of the hub are of the dataset's
    own part for validation.
    """
    wanted = source_split(split, config.shared_pool)
    if config.data == "file" and not config.validation_path:
        return of_split("searchqa", _questions(config, "train"), _text, split, config.shared_pool)
    if wanted in ("train", "base"):
        return _questions(config, "train")
    own = _questions(config, "validation")
    chosen = [question for question in own if _is_held_out(question) == (wanted == "heldout")]
    if not chosen:
        where = config.validation_path if config.data == "file" else f"hub:{config.dataset}"
        raise BadEnvironment(f"searchqa: no question for split {split!r}", where=where, fix="more rows")
    return chosen


def _is_held_out(question: Question) -> bool:
    return split_of(question.text) in ("validation", "heldout")  # a fifth


def _text(question: Question) -> str:
    return question.text


def _questions(config: SearchQAConfig, part: str) -> list[Question]:
    """Return the questions of a part, train or validation: a file, or a part of the dataset."""
    path = config.path if part == "train" else config.validation_path
    name = CONFIGURATION if config.dataset == HOTPOTQA else ""
    rows = rows_of(config.data, path, config.dataset, config.revision, name, part)
    where = path if config.data == "file" else f"hub:{config.dataset}"
    return [_question(row, where) for row in rows]


def _question(row: Row, where: str) -> Question:
    question, answer = row.get("question"), row.get("answer")
    if not isinstance(question, str) or not isinstance(answer, str) or not answer.strip():
        raise BadEnvironment(
            f"not a row of HotpotQA: {str(row)[:80]}", where=where, fix="columns question and answer, both texts"
        )
    return Question(" ".join(question.split()), answer)
