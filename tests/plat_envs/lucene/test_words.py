"""Words and stems, as Lucene's English analysis makes them."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from plat_envs.lucene import LONGEST, STOP_WORDS, measure, stem, terms, words


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("can't stop 3.5 o'neil", ["can't", "stop", "3.5", "o'neil"]),
        ("10-pack w/ usb-c, 1,000 U.S.A.", ["10", "pack", "w", "usb", "c", "1,000", "U.S.A"]),
        ("foo_bar __ !!! <c> № ²", ["foo_bar", "c"]),
        ("日本 ひら カタカナ", ["日", "本", "ひ", "ら", "カタカナ"]),
        ("★★ ♬ ☚ 👍🏽 🇩🇪 •→", ["★", "★", "♬", "☚", "👍🏽", "🇩🇪"]),
        ("", []),
    ],
)
def test_words_are_those_of_annex_29_and_pictographs(text, found):
    assert words(text) == found


def test_a_long_word_is_cut_into_pieces():
    assert [len(piece) for piece in words("x" * (2 * LONGEST + 1))] == [LONGEST, LONGEST, 1]


def test_possessives_capitals_and_stop_words():
    assert terms("The Women's and men’s RUNNING shoes ＇s, İs") == ["women", "men", "run", "shoe", "s"]
    assert len(STOP_WORDS) == 33 and not terms(" ".join(STOP_WORDS)), "and `İ` becomes `i`, so `İs` is one of them"


@settings(deadline=None)
@given(st.text(max_size=60))
def test_any_text_has_terms(text):
    assert all(isinstance(term, str) and term for term in terms(text))


def test_measures():
    assert [measure(word) for word in ("tree", "by", "trouble", "oats", "trees", "troubles", "private")] == [
        *(0, 0, 1, 1, 1, 2, 2)
    ]


# Each rule at least once, also those that must not fire.
STEMS = (
    "caresses caress, ponies poni, cats cat, caress caress, feed feed, agreed agre, plastered plaster, bled bled, "
    "motoring motor, sing sing,"
    " conflated conflat, troubled troubl, sized size, hopping hop, falling fall, hissing hiss, "
    "failing fail, filing file, happy happi, sky sky, relational relat, conditional condit, rational ration, "
    "valenci valenc, digitizer digit, possibly possibl, radically radic, differently differ, vilely vile, "
    "analogously analog, vietnamization vietnam, predication predic, operator oper, feudalism feudal, "
    "decisiveness decis, hopefulness hope, callousness callous, formality formal, sensitivity sensit, "
    "sensibility sensibl, apology apolog, biology biologi, geologically geolog, triplicate triplic, formative form,"
    " formalize formal, "
    "electricity electr, electrical electr, hopeful hope, goodness good, revival reviv, allowance allow,"
    " inference infer, "
    "airliner airlin, gyroscopic gyroscop, adjustable adjust, defensible defens, irritant irrit, replacement replac, "
    "adjustment adjust, dependent depend, adoption adopt, homologous homolog, communism commun, activate activ, "
    "angularity angular, effective effect, bowdlerize bowdler, probate probat, rate rate, cease ceas,"
    " controlling control, "
    "roll roll, is is, by by, yes ye, say sai, 2.5 2.5, usb usb"
)


@pytest.mark.parametrize("pair", STEMS.split(", "))
def test_stems(pair):
    word, expected = pair.split()
    assert stem(word) == expected


def test_a_stem_is_not_longer_than_its_word_but_for_an_e():
    rng = random.Random(0)
    for _ in range(5000):
        word = "".join(rng.choice("aeiouybtlsnz") for _ in range(rng.randint(1, 9)))
        assert stem(word) and len(stem(word)) <= len(word)
