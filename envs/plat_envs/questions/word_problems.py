"""Word problems of two or three steps in vocabulary words, all of the same length.

    tom has 3 boxes with 4 apples each . tom buys 3 more apples . tom loses 2 of them . how many ?

An opening (eight words, no or one step) and two events (five words, one step each). Every number met on the way is a
word: 0 to 30.
"""

from __future__ import annotations

import random

from plat_envs.stand_in.vocabulary import MAX_NUMBER

NAMES = ("tom", "ann", "bob", "sue")
THINGS = ("apples", "books", "coins", "pens")

# who, other: names; thing: a plural; a, b: numbers
_OPENINGS = (
    ("{who} has {a} {thing} in the small bag", ""),
    ("{who} has {a} boxes with {b} {thing} each", "*"),
    ("{who} has {a} {thing} and finds {b} more", "+"),
    ("{who} has twice the {a} {thing} of {other}", "twice"),
)
_EVENTS = (
    ("{who} buys {b} more {thing}", "+"),
    ("{other} gives {who} {b} more", "+"),
    ("{who} finds {b} more {thing}", "+"),
    ("{who} gives {other} {b} {thing}", "-"),
    ("{who} loses {b} of them", "-"),
    ("{who} sells {b} of them", "-"),
    ("now {who} has twice this", "twice"),
)


def word_problem(rng: random.Random) -> tuple[str, str, str, str] | None:
    """Draw a problem: return question, chain of steps, answer and canonical form, or None if a number leaves 0..30.

    The canonical form is the arithmetic alone: the same calculation in other words is the same problem.
    """
    who, other = rng.sample(NAMES, 2)
    thing = rng.choice(THINGS)
    sentences: list[str] = []
    chain: list[str] = []
    value = 0
    for position, kinds in enumerate((_OPENINGS, _EVENTS, _EVENTS)):
        wording, operator = rng.choice(kinds)
        boxes = operator == "*"
        if position == 0:
            value = rng.randint(2, 5) if boxes else rng.randint(1, 9)
            chain.append(str(value))
        operand = 2 if operator == "twice" else rng.randint(2, 5) if boxes else rng.randint(1, 9)
        sentences.append(wording.format(who=who, other=other, thing=thing, a=value, b=operand))
        if operator:
            sign = "*" if operator == "twice" else operator
            value = value * operand if sign == "*" else value + operand if sign == "+" else value - operand
            if not 0 <= value <= MAX_NUMBER:
                return None
            chain.append(f"{sign} {operand} = {value}")
    solution = " ".join(chain)
    return f"{' . '.join(sentences)} . how many ?", solution, str(value), solution
