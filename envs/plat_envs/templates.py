"""The sentences of template reasoning (they fit any state) and the small grammar of grounded reasoning."""

from __future__ import annotations

import re

from plat_envs.vocabulary import DIRECTIONS

GRID_TEMPLATES = (
    "i should move toward the goal step by step",
    "let me plan a safe path to the goal",
    "i will think carefully and then make the move",
    "first look at the goal then move closer",
    "the next move should make me closer now",
    "let me try to find a good way there",
)
PUSH_TEMPLATES = (
    "i should push the box toward the target carefully",
    "let me move behind the box and then push",
)
NUMBER_TEMPLATES = (
    "i should use the numbers to find the answer",
    "let me count step by step and then answer",
    "first add the numbers and then check the total",
    "i will think carefully and then try this answer",
    "let me plan a good way to the target",
    "the numbers should make the total now",
)

_NUMBER, _DIRECTION = r"\d{1,2}", f"(?:{'|'.join(DIRECTIONS)})"


def sentence(pattern: str, *, large: bool = False, tail: str = "") -> re.Pattern[str]:
    """A grammar rule as a regular expression. N is a number (D a direction), N{1,3} one to three of them; other words
    stand for themselves. `large` allows numbers of any size and sign (chat rendering); `tail` is appended as it is."""
    words = []
    for word in pattern.split():
        kind, _, times = word.partition("{")
        unit = {"N": r"-?\d+" if large else _NUMBER, "D": _DIRECTION}.get(kind)
        if unit is None:
            words.append(re.escape(word))
        elif times:
            low, high = times.rstrip("}").split(",")
            words.append(f"{unit}(?: {unit}){{{int(low) - 1},{int(high) - 1}}}")
        else:
            words.append(unit)
    return re.compile(" ".join(words) + tail)
