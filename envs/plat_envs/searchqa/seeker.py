"""What both renderings of `searchqa` share: searches, an answer, and what it is worth."""

from __future__ import annotations

from abc import abstractmethod

from plat_envs.searchqa.config import SearchQAConfig
from plat_envs.turns.episode import Episode

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
