"""What both renderings of `webshop` share: an episode is a visit to a shop, paid when something is bought."""

from __future__ import annotations

import random
from abc import abstractmethod
from typing import Any

from plat_envs.shop.config import WebShopConfig
from plat_envs.shop.product import Goal
from plat_envs.shop.score import matches, score
from plat_envs.shop.scripted import take_the_first, take_the_first_that_matches
from plat_envs.shop.visit import Visit
from plat_envs.turns.episode import Episode

TEMPLATES = (
    "let me look at the price",
    "i should check the color and size",
    "first search then look closer",
    "let me click the next item",
    "i will buy the item now",
    "think carefully and plan this",
)


def _best(values: tuple[str, ...], wanted: tuple[str, ...]) -> str:
    """Return the value that is one of `wanted`, or else the first one that counts as one of them; "" if none does."""
    alike = [value for value in values if any(matches(value, option) for option in wanted)]
    return next((value for value in alike if value in wanted), alike[0] if alike else "")


class Shopper(Episode):
    """An episode of `webshop`. Every answer that is not empty is valid; what is no action changes nothing.

    After the purchase `score` is its score. `success` means the full score.
    """

    task = "webshop"
    templates = TEMPLATES
    config: WebShopConfig
    goal: Goal
    visit: Visit
    score: float

    def _read(self, answer: str) -> tuple[list[Any], bool]:
        return ([answer], True) if answer else ([], False)

    def _play(self, action: str) -> tuple[float, bool, bool]:
        before = self.visit.state
        self._act(action)
        over = self.visit.page == "done"
        if over and self.visit.item:
            self.score = score(self.visit.item, self.visit.chosen.values(), self.goal)
            self.success = self.score >= 1
        reward = self.score if self.config.reward == "dense" else float(self.success)
        return reward, self.visit.state != before, over

    @abstractmethod
    def _act(self, action: str) -> None:
        """Play an action; text that is none, or is impossible on this page, changes nothing."""

    def missing_options(self) -> list[str]:
        """Return the values of the open item that match an option of the goal and are still to be clicked on."""
        item, chosen = self.visit.item, self.visit.chosen
        if item is None:
            return []
        best = {name: _best(values, self.goal.options) for name, values in item.options.items()}
        return [
            value for name, value in best.items() if value and not _best((chosen.get(name, ""),), self.goal.options)
        ]

    @abstractmethod
    def search(self, text: str) -> str:
        """Return the answer that searches for a text."""

    @abstractmethod
    def click(self, name: str) -> str:
        """Return the answer that clicks on the id of a product, a value of an option, or a button of `visit`."""

    @abstractmethod
    def actions(self) -> list[str]:
        """Return the actions that are possible on this page."""

    def _random_answer(self, rng: random.Random) -> str:
        return rng.choice(self.actions())

    def blind(self) -> str:
        return take_the_first(self)

    def greedy(self) -> str:
        return take_the_first_that_matches(self)
