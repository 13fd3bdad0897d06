"""What both renderings of `searchqa` share: searches, an answer, and what it is worth."""

from __future__ import annotations

from abc import abstractmethod

from plat_envs.searchqa.config import LEAST_F1, SearchQAConfig
from plat_envs.searchqa.scoring import exact_match, f1
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
    """An episode of `searchqa`. Every answer that is not empty is valid; what is no search answers the question.

    The answer is worth 1 if it matches exactly, its F1 if that is .3 or more, and else 0.
    """

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
        exact, share = exact_match(said, self.right), f1(said, self.right)
        worth = 1.0 if exact else share if share >= LEAST_F1 else 0.0
        self.success = exact if self.config.success == "em" else worth > 0
        return worth, True, True

    @abstractmethod
    def _parse(self, action: str) -> tuple[str | None, str]:
        """Return (query, "") of a search, or (None, the answer to the question)."""

    @abstractmethod
    def _search(self, query: str) -> bool:
        """Search, and return True if that changed what is shown."""
