"""The chat rendering of `searchqa`: the released actions `search[query]` and `finish[answer]`, and pages as text."""

from __future__ import annotations

import random
import re
import string
from collections import Counter
from collections.abc import Callable

from plat_envs.environment_errors import BadEnvironment
from plat_envs.searchqa.config import LEAST_F1, SearchQAConfig, Seeker
from plat_envs.searchqa.questions import Question

# How an answer is compared with the right one, as SQuAD and HotpotQA do it.

_ARTICLES = re.compile(r"\b(a|an|the)\b")
_NO_PUNCTUATION = str.maketrans("", "", string.punctuation)
_WHOLE = ("yes", "no", "noanswer")  # answers that must agree as a whole


def normal(answer: str) -> str:
    """Return the answer in lower case, without punctuation and articles, with single spaces."""
    return " ".join(_ARTICLES.sub(" ", answer.lower().translate(_NO_PUNCTUATION)).split())


def exact_match(answer: str, right: str) -> bool:
    """Return True if both are equal in their normal form; in lower case, if that of the right one is empty."""
    wanted = normal(right)
    return normal(answer) == wanted if wanted else answer.lower().split() == right.lower().split()


def f1(answer: str, right: str) -> float:
    """Return the F1 of the words of both, in [0, 1]; 0 if one is yes, no or noanswer and they differ."""
    given, wanted = normal(answer), normal(right)
    if given != wanted and (given in _WHOLE or wanted in _WHOLE):
        return 0.0
    words, others = given.split(), wanted.split()
    common = sum((Counter(words) & Counter(others)).values())
    return 2 * common / (len(words) + len(others)) if common else 0.0


MOST_CHARACTERS, MOST_OF_ALL = 800, 4000  # of one page, and of all pages of a search, as released
RESULTS = 5  # pages of a search
Document = tuple[str, float]  # text and score
_ACTION = re.compile(r"\s*(search|finish)\[(.*)\]\s*", re.IGNORECASE | re.DOTALL)
_CLAUSE = re.compile(
    r"\d+ turns are left|no page fits|the question names .+|the .+ of .+ is .+|the city in which .+ is .+"
    r"|.+ was \w+ in \d+"
)
RULES = """You answer a question with a search engine.
Your actions are search[query], which shows the pages that fit best, and finish[answer], which ends the task.
A question may need several searches: search for what the pages so far have told you. Answer in a few words."""


class ChatSeeker(Seeker):
    """`retrieve`: (query, number of pages) -> documents, best first; `question_of`: seed -> question."""

    rules = RULES

    def __init__(
        self,
        config: SearchQAConfig,
        split: str,
        rendering: str,
        retrieve: Callable[[str, int], list[Document]],
        question_of: Callable[[int], Question],
    ) -> None:
        super().__init__(config, split, rendering)
        self._retrieve, self._question_of = retrieve, question_of

    def _load(self, seed: int, noise: int) -> None:
        self.question = self._question_of(seed)
        self.right = self.question.answer
        self.queries: list[str] = []
        self.found: list[Document] = []  # by the newest search
        self.earlier: list[Document] = []  # the best page of each search before it

    @property
    def problem(self) -> str:
        return self.question.text

    def _parse(self, action: str) -> tuple[str | None, str]:
        match = _ACTION.fullmatch(action)
        if match is None:
            return None, action
        return (match[2], "") if match[1].lower() == "search" else (None, match[2])

    def _worth(self, said: str) -> float:
        """Return 1 for an exact match, the F1 if it is .3 or more, and else 0, as released."""
        share = 1.0 if exact_match(said, self.right) else f1(said, self.right)
        return share if share >= LEAST_F1 else 0.0

    def _search(self, query: str) -> bool:
        before = self.found
        self.earlier += before[:1]
        self.queries.append(query)
        self.found = self._retrieve(query, self.config.results or RESULTS)
        return self.found != before

    # --- the prompt ---------------------------------------------------------------------------------------------------

    def _chat(self) -> str:
        lines = [f"Question: {self.question.text}"]
        if self.queries:
            lines.append(f"Searches so far: {'; '.join(self.queries)}")
            # A player who sees the present observation alone needs what was found before.
            lines += [f"Found before: {text[:MOST_CHARACTERS]}" for text, _ in self.earlier]
            lines.append(self._documents())
        return "\n".join([*lines, "Actions: search[query], finish[answer]"])

    def _documents(self) -> str:
        """Return the pages of the newest search: number, rank, score, and text, cut as released."""
        if not self.found:
            return "The search found nothing."
        shown = [
            f"Document {number} (id {number}, score {score:.3f}): {text[:MOST_CHARACTERS]}"
            for number, (text, score) in enumerate(self.found, start=1)
        ]
        text = "\n".join(shown)
        return text if len(text) <= MOST_OF_ALL else f"{text[:MOST_OF_ALL]}..."

    # --- demonstrations -----------------------------------------------------------------------------------------------

    def _found_facts(self) -> list[str]:
        """Return the facts on the way to the answer whose pages are shown, in order, up to the first that is not."""
        shown = {text.partition("\n")[0] for text, _ in (*self.earlier, *self.found)}
        known = []
        for page, fact in zip(self.question.path, self.question.facts, strict=True):
            if page not in shown:
                break
            known.append(fact)
        return known

    def _named(self) -> list[str]:
        """Return the fact that the question names the first page of the way; [] if no way is known."""
        return [f"the question names {page}" for page in self.question.path[:1]]

    def _good_answer(self, rng: random.Random) -> str:
        missing = self.question.path[len(self._found_facts()) :][:1]
        if missing and missing[0] not in self.queries and self.turns_left > 1:
            return f"search[{missing[0]}]"
        return f"finish[{self.right}]"

    def _random_answer(self, rng: random.Random) -> str:
        words = re.findall(r"\w+", self.question.text) or ["nothing"]
        return f"{rng.choice(('search', 'finish'))}[{rng.choice(words)}]"

    def _facts(self, answer: str, several: bool) -> str:
        facts = [*(self._found_facts()[-1:] or self._named()), f"{self.turns_left} turns are left"]
        return f"{'; '.join(facts if several else facts[:1])}; so {answer}"

    def _wrong_facts(self, rng: random.Random) -> tuple[str, str]:
        answer = self._random_answer(rng)
        return f"{self.turns_left + 1 + rng.randrange(5)} turns are left; no page fits; so {answer}", answer

    def _facts_stated(self, reasoning: str) -> list[bool]:
        stated, so, action = reasoning.rpartition("; so ")
        if not so or _ACTION.fullmatch(action) is None:
            return []
        clauses = stated.split("; ")
        if not all(map(_CLAUSE.fullmatch, clauses)):
            return []
        true = {*self._found_facts(), *self._named(), f"{self.turns_left} turns are left"}
        return [clause in true for clause in clauses]

    # --- scripted policies --------------------------------------------------------------------------------------------

    def blind(self) -> str:
        """Finish without a search: with a name in the question, which answers half of the comparisons."""
        return f"finish[{self._first_page()}]"

    def greedy(self) -> str:
        """Search for the first page, and finish with the name on it that the question may ask for."""
        page = self._first_page()
        if not self.queries:
            return f"search[{page}]"
        _, is_name, name = self.question.facts[0].rpartition(" is ")
        return f"finish[{name if is_name else page}]"

    def _first_page(self) -> str:
        if not self.question.path:
            raise BadEnvironment("real questions have no way to look ahead on", fix="data=generated")
        return self.question.path[0]
