"""The options of `searchqa`."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from urllib.parse import urlsplit

from plat_envs.data import check_source
from plat_envs.environment_errors import BadEnvironment, check_choice, check_range
from plat_envs.instances import Candidate, draw, ready
from plat_envs.searchqa.encyclopaedia import NUMBERS, RELATIONS, Encyclopaedia, encyclopaedia
from plat_envs.server_words import check_parts
from plat_envs.turns.episode import EpisodeConfig

HOTPOTQA = "hotpotqa/hotpot_qa"  # on the hub
LEAST_F1 = 0.3  # of a paid answer, as released
_PRINTABLE = re.compile(r"[!-~]+")


@dataclass(frozen=True)
class SearchQAConfig(EpisodeConfig):
    turns: int = 5  # searches and the answer [turns]
    actions_per_turn: int = 1  # every search changes what is known, so it is always 1 [actions]
    hops: int = 3  # facts that lead to the answer, at most; in the compact rendering 1 to this number, equally often
    distractors: int = 2  # pages with a second fact of the same kind, in the compact rendering [pages]
    results: int = 0  # pages of a search; 0: 1 in the compact rendering, 5 in chat, as released [pages]
    search_cost: float = 0.0  # that each search costs; the released task has none [reward]
    success: str = "f1"  # as released: an F1 of .3 or more | em: an exact match, as always in the compact rendering
    data: str = "generated"  # where questions and pages come from: generated | file | hub
    path: str = ""  # of the training questions, where `data` is file
    validation_path: str = ""  # of the validation questions; empty: a part of `path`
    dataset: str = HOTPOTQA  # on the hub, where `data` is hub
    revision: str = ""  # of the dataset on the hub; empty: the newest
    server: str = ""  # address of a retrieval server, e.g. http://127.0.0.1:8000; empty: generated pages are searched
    index: str = ""  # the server's hash, as its /health says; a run stops if the server has another one
    patience: float = 60.0  # for which a server that does not answer is asked again [seconds]
    encyclopaedia: int = 0  # the seed of the generated pages of the chat rendering

    def __post_init__(self) -> None:
        super().__post_init__()
        check_range("actions_per_turn", self.actions_per_turn, 1, 1)
        check_range("hops", self.hops, 1, 3)
        check_range("distractors", self.distractors, 0, 8)
        check_range("results", self.results, 0, 50)
        check_range("search_cost", self.search_cost, 0.0, 1.0)
        check_range("patience", self.patience, 0.0, 3600.0)
        check_range("encyclopaedia", self.encyclopaedia, 0, 2**31)
        check_choice("success", self.success, ("f1", "em"))
        check_source("searchqa", self.data, self.path)
        if self.server and not _is_address(self.server):
            raise BadEnvironment(f"searchqa: server is {self.server!r}", fix="an address such as http://127.0.0.1:8000")
        check_parts("searchqa: server", self.server, with_query=False)
        if self.data != "generated" and not self.server:
            raise BadEnvironment(
                f"searchqa: data is {self.data!r} but there is no server to search",
                fix="start one (plat retrieval serve) and name it: task.env.server=http://HOST:8000",
            )


def _is_address(text: str) -> bool:
    try:
        address = urlsplit(text)
        host = (address.hostname or "").encode("idna").decode()
        if address.scheme not in ("http", "https") or address.port == 0 or not host:
            return False
        return _PRINTABLE.fullmatch(host + address.path) is not None
    except ValueError:  # of a port that is no number, or a host that cannot be a name
        return False


# Questions over a generated encyclopaedia, with the pages that their answers come from.
#
# 1 hop        20 %   Who is the author of A Winter in Beldun?
# bridge       50 %   What is the birthplace of the author of A Winter in Beldun?
# 3 hops       15 %   What is the country of the birthplace of the author of A Winter in Beldun?
# comparison   15 %   Who was born earlier, Marena Norfen or Isa Corbel?

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
