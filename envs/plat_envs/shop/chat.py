"""The chat rendering of `webshop`: the released actions `search[words]` and `click[name]`, and pages as text."""

from __future__ import annotations

import random
import re

from plat_envs.shop.chat_facts import costs, facts_stated, limit_is, sentence, wanted
from plat_envs.shop.config import WebShopConfig
from plat_envs.shop.pages import page_text, possible_actions
from plat_envs.shop.product import Product
from plat_envs.shop.score import score
from plat_envs.shop.shopper import Shopper
from plat_envs.shop.shops import GoalShop, goals_of_split
from plat_envs.shop.visit import BUY, NEXT, PREVIOUS, SUB_PAGES, Visit

_ACTION = re.compile(r"\s*(search|click)\[(.+)\]", re.IGNORECASE | re.DOTALL)
_PAGES_AHEAD = 3  # of results that a demonstration turns over before it searches again
RULES = """You are shopping on the web. Find and buy a product that fits the instruction.
Your actions are search[words], which works on every page, and click[name] with a name from the list of actions.
Search for the kind of product and its features. Open a product whose price is within the limit, click each option \
that the instruction names, then click[buy now]. Only what you buy counts, so buy before your actions are used up."""


class ChatShopper(Shopper):
    rules = RULES

    def __init__(self, config: WebShopConfig, split: str, rendering: str, shop: GoalShop) -> None:
        super().__init__(config, split, rendering)
        self.shop = shop
        self._goals = goals_of_split(shop, config, split)

    def _load(self, seed: int, noise: int) -> None:
        """Seed 0 gives the first goal of the split, and so on; after the last, the first again."""
        self._goal_id = self._goals[seed % len(self._goals)]
        self.goal = self.shop.goal(self._goal_id)
        self.visit, self.score = Visit(self.shop), 0.0

    @property
    def problem(self) -> str:
        goal = self.goal
        return f"{goal.query} {sorted(goal.attributes)} {sorted(goal.options)} {goal.limit} {goal.product}"

    def _act(self, action: str) -> None:
        match = _ACTION.match(action)
        if match is None:
            return
        verb, argument = match.group(1).lower(), match.group(2).lower()
        if verb == "search":
            self.visit.search(argument)
        else:
            self.visit.click(argument.strip())

    def search(self, text: str) -> str:
        return f"search[{text}]"

    def click(self, name: str) -> str:
        return f"click[{name.lower()}]"

    def actions(self) -> list[str]:
        clicks = [self.click(name) for name in self.visit.clickable()]
        return clicks or [self.search(self.goal.query)]

    def _chat(self) -> str:
        text = page_text(self.visit, self.goal.text)
        return text if self.visit.page == "done" else f"{text}\nActions: {', '.join(possible_actions(self.visit))}"

    # --- demonstrations -----------------------------------------------------------------------------------------------

    def fits(self, product_id: str) -> bool:
        """Return True if the purchase of a product can have the full score, or if the goal was made from it."""
        product = self.shop.product(product_id)
        values = [value for values in product.options.values() for value in values]
        return product_id == self.goal.product or score(product, values, self.goal) >= 1

    def _good_answer(self, rng: random.Random) -> str:
        visit = self.visit
        if visit.page in SUB_PAGES:
            return self.click(PREVIOUS)
        if visit.item is not None:
            if not self.fits(visit.item.id):
                return self.click(PREVIOUS)
            missing = self.missing_options()
            return self.click(missing[0] if missing else BUY)
        fitting = next((hit for hit in visit.hits[: _PAGES_AHEAD * self.shop.window] if self.fits(hit)), None)
        if fitting is None:
            return self._good_search()
        page = visit.hits.index(fitting) // self.shop.window + 1
        if page != visit.number:
            return self.click(NEXT if page > visit.number else PREVIOUS)
        return self.click(fitting)

    def _good_search(self) -> str:
        """Return a search for all that is wanted, or for the title of the product if that finds nothing."""
        goal = self.goal
        text = " ".join([*goal.attributes, goal.query, *goal.options])
        found = self.shop.search(text)[: self.shop.window]
        return self.search(text if any(map(self.fits, found)) else self.shop.product(goal.product).title)

    def _facts(self, answer: str, several: bool) -> str:
        facts = [*self._leading_facts(answer), limit_is(self.goal.limit)]
        return sentence(facts if several else facts[:1], answer)

    def _leading_facts(self, answer: str) -> list[str]:
        """Return the fact that leads to an answer: a price, or something that is wanted."""
        named = answer.partition("[")[2][:-1]
        if self.visit.item:
            return [wanted(named)] if named in self.goal.options else [costs(self.visit.item)]
        clicked: Product | None = next(
            (self.shop.product(shown) for shown in self.visit.shown() if shown.lower() == named), None
        )
        return [costs(clicked) if clicked else wanted(self.goal.query)]

    def _wrong_facts(self, rng: random.Random) -> tuple[str, str]:
        answer = self._random_answer(rng)
        return sentence([wanted(self.goal.query), limit_is(self.goal.limit + rng.randint(1, 50))], answer), answer

    def _facts_stated(self, reasoning: str) -> list[bool]:
        return facts_stated(self.visit, self.goal, reasoning)
