"""How an answer is compared with the right one, as SQuAD and HotpotQA do it."""

from __future__ import annotations

import re
import string
from collections import Counter

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
