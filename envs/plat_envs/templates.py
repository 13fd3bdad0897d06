"""The sentences of template reasoning (they fit any state), and the small grammar of reasoning that states facts.

Templates are short: on average shorter than a sentence that states facts, as a thought that says nothing often is.
"""

from __future__ import annotations

import re

from plat_envs.vocabulary import DIRECTIONS

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
    """A grammar rule as a regular expression, with a group for each placeholder.

    N is a number, D a direction, N{1,3} one to three numbers in one group; other words stand for themselves. `large`
    allows numbers of any size and sign (chat rendering); `tail` is appended as it is.
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
