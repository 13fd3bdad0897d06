"""The chat rendering of `webshop`: the released actions `search[words]` and `click[name]`, and pages as text."""

from __future__ import annotations

import random
import re

from plat_envs.shop.catalogue import GoalShop, goals_of_split
from plat_envs.shop.product import Goal, Product, WebShopConfig, score
from plat_envs.shop.shopper import BUY, NEXT, PREVIOUS, SUB_PAGES, Shopper, Visit

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


# The sentences of the chat rendering that state facts, and whether the facts hold.
#
# B0ABCDEFGH costs 18.99; the limit is 40.00; so click[b0abcdefgh]

_JOIN = "; "
_COSTS = re.compile(r"(\w+) costs (\d+\.\d\d)")
_LIMIT = re.compile(r"the limit is (\d+\.\d\d)")
_WANTED = re.compile(r"(.+) is wanted")
_SO = re.compile(r"so (?:search|click)\[.+\]", re.DOTALL)


def costs(product: Product) -> str:
    """Return the fact that a product has its price."""
    return f"{product.id} costs {product.price:.2f}"


def limit_is(limit: float) -> str:
    """Return the fact that the highest price is this."""
    return f"the limit is {limit:.2f}"


def wanted(what: str) -> str:
    """Return the fact that the goal names this type, attribute or option."""
    return f"{what} is wanted"


def sentence(facts: list[str], answer: str) -> str:
    """Return the reasoning that states these facts and leads to the answer."""
    return _JOIN.join([*facts, f"so {answer}"])


def facts_stated(visit: Visit, goal: Goal, reasoning: str) -> list[bool]:
    """Return for each fact in the reasoning True if it holds on this page; [] for other sentences."""
    *facts, so = reasoning.split(_JOIN)
    judged = [_holds(visit, goal, fact) for fact in facts]
    if not _SO.fullmatch(so) or None in judged:
        return []
    return [bool(holds) for holds in judged]


def _holds(visit: Visit, goal: Goal, fact: str) -> bool | None:
    """Return whether a fact holds; None if the text states none."""
    if match := _COSTS.fullmatch(fact):
        shown = [visit.item.id] if visit.item else visit.shown() if visit.page == "results" else ()
        return match.group(1) in shown and fact == costs(visit.shop.product(match.group(1)))
    if _LIMIT.fullmatch(fact):
        return fact == limit_is(goal.limit)
    if match := _WANTED.fullmatch(fact):
        return match.group(1) in (goal.query, *goal.attributes, *goal.options)
    return None


# The text of pages in the chat rendering: pieces joined by `[SEP]`, as released, and the actions that are possible.

SEPARATOR = " [SEP] "


def page_text(visit: Visit, instruction: str) -> str:
    """Return the text of the open page under the instruction."""
    name = ["WebShop"] if visit.page == "search" else []
    return SEPARATOR.join([*name, "Instruction:", instruction, *_pieces(visit)])


def _pieces(visit: Visit) -> list[str]:
    if visit.page == "search":
        return ["Search"]
    if visit.page == "done":
        return ["Thank you for shopping with us!"]
    if visit.page == "results":
        return _results(visit)
    item = visit.item
    assert item is not None  # all other pages are of an item
    return [
        "Back to Search",
        "< Prev",
        *(_sub_page(visit.page, item) if visit.page in SUB_PAGES else _item(item, visit.chosen)),
    ]


def _results(visit: Visit) -> list[str]:
    pieces = ["Back to Search", f"Page {visit.number} (Total results: {len(visit.hits)})"]
    pieces += [button for button in ("< Prev", "Next >") if button.lower() in visit.clickable()]
    for product_id in visit.shown():
        product = visit.shop.product(product_id)
        pieces += [product.id, product.title, product.price_tag]
    return pieces


def _item(item: Product, chosen: dict[str, str]) -> list[str]:
    """Return the pieces of an item's page. What was chosen stands there too, so that a page is the whole state."""
    pieces = [piece for name, values in item.options.items() for piece in (name, *values)]
    pieces += [f"Chosen {name}: {value}" for name, value in chosen.items()]
    return [
        *pieces,
        *(item.title, f"Price: {item.price_tag}", "Rating: N.A."),
        *(page.capitalize() for page in SUB_PAGES),
        "Buy Now",
    ]


def _sub_page(page: str, item: Product) -> list[str]:
    """Return the texts of a sub-page. Published products come without reviews, and generated ones have none."""
    if page == "description":
        return [item.description]
    return list(item.bullets) if page == "features" else []


def possible_actions(visit: Visit) -> list[str]:
    """Return the actions that the page shows. A search is listed where there is a search bar, but works everywhere."""
    clicks = [f"click[{name}]" for name in visit.clickable()]
    return ["search[<content>]", *clicks] if visit.page == "search" else clicks
