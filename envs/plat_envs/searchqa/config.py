"""The options of `searchqa`, and what both of its renderings share: searches, an answer, and what it is worth."""

from __future__ import annotations

import re
from abc import abstractmethod
from dataclasses import dataclass
from urllib.parse import urlsplit

from plat_envs.data import check_source
from plat_envs.environment_errors import BadEnvironment, check_choice, check_parts, check_range
from plat_envs.turns.episode import Episode, EpisodeConfig

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


# What both renderings of `searchqa` share: searches, an answer, and what it is worth.

TEMPLATES = (
    "i should search more",
    "let me search then answer",
    "first look then answer",
    "think carefully and search",
    "i will try this page",
    "let me check the result",
)


class Seeker(Episode):
    """An episode of `searchqa`. Every answer that is not empty is valid; what is no search answers the question."""

    task = "searchqa"
    templates = TEMPLATES
    config: SearchQAConfig
    right: str  # the answer that is looked for

    def _read(self, answer: str) -> tuple[list[str], bool]:
        return ([answer], True) if answer else ([], False)

    def _play(self, action: str) -> tuple[float, bool, bool]:
        query, said = self._parse(action)
        if query is not None:
            return -self.config.search_cost, self._search(query), False
        worth = self._worth(said)
        self.success = worth == 1 if self.config.success == "em" else worth > 0
        return worth, True, True

    @abstractmethod
    def _worth(self, said: str) -> float:
        """Return what an answer pays, in [0, 1]; 1 for an exact match."""

    @abstractmethod
    def _parse(self, action: str) -> tuple[str | None, str]:
        """Return (query, "") of a search, or (None, the answer to the question)."""

    @abstractmethod
    def _search(self, query: str) -> bool:
        """Search, and return True if that changed what is shown."""
