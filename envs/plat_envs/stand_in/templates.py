"""The sentences of template reasoning, which fit any state, and the grammar of reasoning that states facts.

Templates are on average shorter than sentences that state facts.
"""

from __future__ import annotations

import re

from plat_envs.stand_in.vocabulary import DIRECTIONS

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
