"""What stand-ins need of a task: the sentences of their reasoning, and demonstrations, the data of base models.

Sentences of template reasoning fit any state; a grammar has the reasoning that states facts. Templates are on average
shorter than sentences that state facts.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from dataclasses import dataclass

from plat_envs.api import Seen, Teacher

# The closed word list of every compact rendering, fixed and ordered (a base model is trained on exactly this list).
#
# Compact text is words of WORDS joined by single spaces. Words of all seven tasks are there from the start, so that a
# task added later changes no existing run. The list never changes under one VERSION: a new word means a new version.

VERSION = "v2"

PAD, BOS, EOS, UNKNOWN = "<pad>", "<bos>", "<eos>", "<unk>"
THINK, END_THINK, ANSWER, END_ANSWER = "<think>", "</think>", "<answer>", "</answer>"
SPECIAL = (PAD, BOS, EOS, UNKNOWN, "<system>", "<user>", "<assistant>", THINK, END_THINK, ANSWER, END_ANSWER)

TASKS = ("sokoban", "frozenlake", "metamathqa", "countdown", "searchqa", "webshop", "deepcoder")
MAX_NUMBER = 30  # whole numbers 0..MAX_NUMBER are one word each
NUMBERS = tuple(str(number) for number in range(MAX_NUMBER + 1))
DIRECTIONS = ("up", "down", "left", "right")
CELLS = ("#", "_", "O", "X", "P", "S", "G", "√")
SYMBOLS = ("||", "+", "-", "*", "/", "=", "(", ")", "[", "]", ".", ",", "?", ":")

# Reasoning that states facts; words of other groups are used too.
FACTS = ("at", "goal", "so", "push", "from", "box", "target", "stuck", "minus", "total", "hole")
# Template reasoning; words listed above are used too.
TEMPLATES = (
    *("i", "should", "move", "toward", "the", "let", "me", "plan", "a", "safe", "path", "will", "think", "carefully"),
    *("and", "then", "make", "first", "look", "closer", "next", "now", "try", "way", "behind", "use", "numbers"),
    *("answer", "count", "add", "check", "this"),
)
MATHEMATICS = (
    *("tom", "ann", "bob", "sue", "has", "apples", "books", "coins", "pens", "boxes", "bag", "with", "each", "in"),
    *("finds", "more", "twice", "as", "many", "buys", "gives", "loses", "sells", "of", "them", "how"),
)
# Of SearchQA, WebShop and DeepCoder.
ENTITIES = ("e0", "e1", "e2", "e3", "e4", "e5", "e6", "e7")
SEARCH = ("search", "finish", "no", "result", "who", "where", "is", "born", "wrote", "city", "capital")
SHOP = ("click", "buy", "back", "page", "item", "price", "size", "color", "red", "blue", "green", "small", "large")
CODE = ("def", "return", "if", "else", "for", "x", "y", "list", "max", "min", "len")

WORDS: tuple[str, ...] = (
    *SPECIAL,
    *TASKS,
    *NUMBERS,
    *DIRECTIONS,
    *CELLS,
    *SYMBOLS,
    *FACTS,
    *TEMPLATES,
    *MATHEMATICS,
    *ENTITIES,
    *SEARCH,
    *SHOP,
    *CODE,
)
IDS: dict[str, int] = {word: index for index, word in enumerate(WORDS)}


def padded(text: str, length: int) -> str:
    """Return the text with `_` after it, so that it has `length` words and later words keep their place."""
    words = text.split()
    return " ".join([*words, *["_"] * (length - len(words))])


GRID_TEMPLATES = (
    "i should move toward the goal",
    "let me plan a safe path",
    "think carefully and make the move",
    "first look then move closer",
    "the next move should make me closer",
    "let me try this way",
)
PUSH_TEMPLATES = (
    "i should push the box toward the target",
    "let me move behind the box",
)
NUMBER_TEMPLATES = (
    "i should use the numbers",
    "let me count then answer",
    "add and check the total",
    "i will try this answer",
    "let me plan the answer",
    "think carefully and answer now",
)

_NUMBER, _DIRECTION = r"\d{1,2}", f"(?:{'|'.join(DIRECTIONS)})"


def sentence(pattern: str, *, large: bool = False, tail: str = "") -> re.Pattern[str]:
    """Return a grammar rule as a regular expression, with a group for each placeholder.

    N is a number, D a direction, N{1,3} one to three numbers in one group; other words are literal. `large` allows
    numbers of any size and sign (chat rendering); `tail` is appended unchanged.
    """
    words = []
    for word in pattern.split():
        kind, _, times = word.partition("{")
        unit = {"N": r"-?\d+" if large else _NUMBER, "D": _DIRECTION}.get(kind)
        if unit is None:
            words.append(re.escape(word))
        elif times:
            low, high = times.rstrip("}").split(",")
            words.append(f"({unit}(?: {unit}){{{int(low) - 1},{int(high) - 1}}})")
        else:
            words.append(f"({unit})")
    return re.compile(" ".join(words) + tail)


# Demonstrations, the training data of base models.
#
# Episodes mix good and random answers, to cover a beginner's positions. The response in the corpus and the one that is
# played at the same position are drawn independently.

_GOOD_MOVES = 0.7  # share of good answers among those played


@dataclass(frozen=True)
class Mix:
    """Shares in [0, 1] of the levels of reasoning among demonstrations; the rest are templates.

    grounded     true facts, one or several with equal chance, with a good action
    wrong        wrong facts, with a random action
    usefulness   of the templates: the share with a good action; the others have a random one
    """

    grounded: float
    wrong: float
    usefulness: float


@dataclass(frozen=True)
class Demonstration:
    """A prompt with a response to imitate, whose reasoning is of this level."""

    prompt: Seen
    response: str
    level: str


def demonstrations(
    environment: Teacher, rng: random.Random, count: int, mix: Mix, first_seed: int = 0
) -> Iterator[Demonstration]:
    """Play episodes of the seeds from `first_seed` on; yield one demonstration at each prompt, `count` in all."""
    seed, done = first_seed, True
    prompt: Seen = ""
    for _ in range(count):
        if done:
            prompt = environment.reset(seed)
            seed += 1
        level, good = _draw_level(rng, mix)
        yield Demonstration(prompt, environment.demonstrate(rng, level, good), level)
        prompt, _, done, _ = environment.step(environment.demonstrate(rng, "template", rng.random() < _GOOD_MOVES))


def _draw_level(rng: random.Random, mix: Mix) -> tuple[str, bool]:
    """Draw a level of reasoning, and True if a template gets a good action."""
    chance = rng.random()
    if chance < mix.grounded:
        return rng.choice(("one_fact", "several_facts")), True
    if chance < mix.grounded + mix.wrong:
        return "wrong_facts", False
    return "template", rng.random() < mix.usefulness
