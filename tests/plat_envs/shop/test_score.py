"""The score of a purchase, against a slow scorer written from its definition, and the similarity of texts."""

from __future__ import annotations

import dataclasses
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plat_envs.shop.product import (
    COLORS,
    Goal,
    Product,
    common_length,
    matched_options,
    plain_color,
    score,
    similarity,
    type_factor,
)


def slow_common_length(first, second):
    """By a table."""
    table = [[0] * (len(second) + 1) for _ in range(len(first) + 1)]
    for i, a in enumerate(first):
        for j, b in enumerate(second):
            table[i + 1][j + 1] = table[i][j] + 1 if a == b else max(table[i][j + 1], table[i + 1][j])
    return table[-1][-1]


def slow_similarity(first, second):
    """The largest ratio among three texts: shared words, and shared words with the rest of each side."""
    sides = []
    for text in (first, second):
        kept = "".join(c for c in text if not 128 <= ord(c) <= 255)
        sides.append({word for word in "".join(c if c.isalnum() else " " for c in kept).lower().split()})
    if not sides[0] or not sides[1]:
        return 0
    shared = sorted(sides[0] & sides[1])
    texts = [shared, shared + sorted(sides[0] - sides[1]), shared + sorted(sides[1] - sides[0])]
    best = 0
    for left, right in ((0, 1), (0, 2), (1, 2)):
        one, other = " ".join(texts[left]), " ".join(texts[right])
        if one and other:
            best = max(best, round(100 * 2 * slow_common_length(one, other) / (len(one) + len(other))))
    return best


def slow_score(product, chosen, goal):
    """As the definition reads, a loop for each sentence of it."""
    points = 0
    for wanted in goal.attributes:
        found = False
        for own in product.attributes:
            found = found or slow_similarity(own, wanted) > 85
        for text in [product.title, product.description, " ".join(product.bullets)]:
            found = found or wanted in text.lower()
        points += 1 if found else 0
    for wanted in goal.options:
        for value in chosen:
            pair = [next((color for color in COLORS if color in one), one) for one in (wanted, value)]
            if slow_similarity(*pair) > 85:
                points += 1
                break
    if not product.price > goal.limit:
        points += 1
    common = [noun for noun in dict.fromkeys(goal.nouns) if noun in product.nouns]
    overlap = 0.2 if not goal.nouns else len(common) / len(goal.nouns)
    kind = 1.0
    same_departments = len([part for part in dict.fromkeys(goal.path) if part in product.path])
    if product.query != goal.query and same_departments < 2 and overlap <= 0.2:
        kind = 0.5
    if overlap < 0.1:
        kind = 0.1
    if overlap == 0:
        kind = 0.0
    return kind * points / (1 + len(goal.attributes) + len(goal.options))


NOUNS = ("shoe", "lamp", "jar", "hat", "usb", "box", "cup", "pen", "tea", "oil", "bag", "cap")
ATTRIBUTES = ("tea tree", "essential oils", "essential oil", "non slip", "slip resistant", "machine wash", "bpa free")
OPTIONS = (
    "large",
    "large tall",
    "x-large",
    "red",
    "dark red",
    "06-red",
    "navy blue",
    "sky blue",
    "10 pack",
    "pack of 10",
)


def some(rng, words, most):
    return tuple(rng.choice(words) for _ in range(rng.randint(0, most)))


def drawn(rng):
    """A product, what is chosen and a goal, from so few words that everything matches sometimes."""
    product = Product(
        id="A",
        title=" ".join(some(rng, NOUNS + ATTRIBUTES, 4)).title(),
        price=float(rng.randint(1, 40)),
        query=rng.choice(NOUNS[:3]),
        path=some(rng, "abcd", 4),
        nouns=some(rng, NOUNS, 6),
        attributes=some(rng, ATTRIBUTES, 3),
        bullets=some(rng, ATTRIBUTES, 2),
        description=" ".join(some(rng, NOUNS + ATTRIBUTES, 3)),
    )
    nouns = some(rng, NOUNS, 3) + some(rng, ("one", "two", "three", "four"), rng.choice((0, 12)))
    goal = Goal(
        *("A", "", some(rng, ATTRIBUTES, 3), some(rng, OPTIONS, 3), float(rng.randint(1, 40))),
        *(rng.choice(NOUNS[:3]), some(rng, "abcd", 4), nouns),
    )
    return product, some(rng, OPTIONS, 3), goal


def test_scores_are_those_of_the_slow_scorer():
    rng = random.Random(11)
    seen = []
    for _ in range(2000):
        case = drawn(rng)
        seen.append(score(*case))
        assert seen[-1] == pytest.approx(slow_score(*case), abs=1e-12), case
    assert len({round(one, 6) for one in seen}) > 20 and max(seen) == 1 and min(seen) == 0
    assert {type_factor(case[0], case[2]) for case in (drawn(rng) for _ in range(2000))} == {0.0, 0.1, 0.5, 1.0}


WORDS_OF_TEXT = st.lists(st.sampled_from((*OPTIONS, *ATTRIBUTES, "é_1", "日本", "|", "")), max_size=3).map(" ".join)


@given(st.one_of(WORDS_OF_TEXT, st.text(max_size=9)), st.one_of(WORDS_OF_TEXT, st.text(max_size=9)))
def test_similarity_is_that_of_the_slow_one(first, second):
    assert similarity(first, second) == similarity(second, first) == slow_similarity(first, second)
    assert common_length(first, second) == slow_common_length(first, second)


@pytest.mark.parametrize(
    ("first", "second", "alike"),
    [
        ("large", "large tall", True),
        ("essential oil", "essential oils", True),
        ("red", "blue", False),
        ("small", "large", False),
        ("", "", False),
        ("!!", "red", False),
    ],
)
def test_what_counts_as_equal(first, second, alike):
    assert (similarity(first, second) > 85) == alike


def test_a_similarity_of_85_is_not_enough():
    goal = Goal("A", "", (), ("a" * 17 + "xyz",), 0.0, "", (), ())
    assert similarity("a" * 17 + "bcd", goal.options[0]) == 85 and matched_options(["a" * 17 + "bcd"], goal) == 0
    assert similarity("a" * 18 + "bc", "a" * 18 + "xyz") > 85 and matched_options(["a" * 18 + "yz"], goal) == 1


def test_shades_count_as_their_colour():
    assert plain_color("navy blue") == plain_color("sky blue") == "blue"
    assert plain_color("dark red") == "dark" and plain_color("10 pack") == "10 pack"


def test_a_full_score_needs_everything():
    product = Product("A", "Lamp", 9.0, "lamp", (), ("lamp",), {"size": ("large", "small")}, ("non slip",))
    goal = Goal("A", "", ("non slip",), ("large",), 10.0, "lamp", (), ("lamp",))
    assert score(product, ["large"], goal) == 1
    assert score(product, [], goal) == score(product, ["small"], goal) == pytest.approx(2 / 3)
    assert score(dataclasses.replace(product, price=10.0), ["large"], goal) == 1, "the limit itself is allowed"
    assert score(dataclasses.replace(product, price=10.01), ["large"], goal) == pytest.approx(2 / 3)
    assert score(dataclasses.replace(product, attributes=()), ["large"], goal) == pytest.approx(2 / 3)
    assert score(dataclasses.replace(product, nouns=("jar",)), ["large"], goal) == 0
