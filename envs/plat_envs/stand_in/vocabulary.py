"""The closed word list of every compact rendering, fixed and ordered (a base model is trained on exactly this list).

Compact text is words of WORDS joined by single spaces. Words of all seven tasks are there from the start, so that a
task added later changes no existing run. The list never changes under one VERSION: a new word means a new version.
"""

from __future__ import annotations

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
