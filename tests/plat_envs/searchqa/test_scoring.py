"""F1 and exact match against a second, plainly written scorer."""

from __future__ import annotations

import random

import pytest

from plat_envs.searchqa.chat import exact_match, f1, normal

WORDS = [
    "the",
    "a",
    "An",
    "Paris",
    "paris",
    "York",
    "new-york",
    "yes",
    "No",
    "noanswer",
    "42",
    "U.S.",
    "of",
    "it's",
    "!",
]


def words_of(text):
    """Normal words, letter by letter, without regular expressions."""
    kept = "".join(letter for letter in text.lower() if letter not in "!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~")
    return [word for word in kept.split() if word not in ("a", "an", "the")]


def slow_f1(answer, right):
    given, wanted = words_of(answer), words_of(right)
    if given != wanted and {" ".join(given), " ".join(wanted)} & {"yes", "no", "noanswer"}:
        return 0.0
    left, common = list(wanted), 0
    for word in given:
        if word in left:
            left.remove(word)
            common += 1
    if common == 0:
        return 0.0
    precision, recall = common / len(given), common / len(wanted)
    return 2 * precision * recall / (precision + recall)


def test_a_thousand_pairs_score_as_the_slow_scorer_says():
    rng = random.Random(5)
    scores = set()
    for _ in range(1000):
        answer, right = (" ".join(rng.choices(WORDS, k=rng.randint(0, 5))) for _ in range(2))
        assert f1(answer, right) == pytest.approx(slow_f1(answer, right), abs=1e-12), (answer, right)
        compared = words_of if words_of(right) else lambda text: text.lower().split()
        assert exact_match(answer, right) == (compared(answer) == compared(right)), (answer, right)
        scores.add(round(f1(answer, right), 3))
    assert len(scores) > 10 and {0.0, 1.0} <= scores


def test_what_is_normal():
    assert exact_match("The Eiffel-Tower!", "eiffeltower") and not exact_match("eiffel tower", "eiffeltower")
    assert f1("yes it is", "yes") == 0 and f1("Yes.", "yes") == 1
    assert f1("", "") == 0


@pytest.mark.parametrize("right", ["The The", "A", "?", "the"])
def test_a_right_answer_of_articles_and_signs_alone_is_compared_as_it_is(right):
    assert normal(right) == "" and exact_match(f" {right.upper()} ", right)
    assert not any(exact_match(answer, right) for answer in ("", "!", "an", right + " The"))
