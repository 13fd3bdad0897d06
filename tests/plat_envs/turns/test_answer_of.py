"""The answer of a response: with and without the opening tag, and no exception on anything."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from plat_envs.turns.episode import answer_of

TAGS = ("<think>", "</think>", "<answer>", "</answer>")
pieces = st.one_of(st.sampled_from(TAGS), st.sampled_from((" ", "\n", "||")), st.text(max_size=6))


def test_the_whole_response():
    assert answer_of("<think> go up </think> <answer> up || left </answer>") == "up || left"


def test_the_prefilled_response():
    assert answer_of("go up </think>\n<answer>up</answer> and so on") == "up"


def test_text_before_the_opening_tag_is_allowed():
    assert answer_of("well, <think>go</think><answer>up</answer>") == "up"


def test_what_is_not_valid():
    for text in (
        "",
        "go up",
        "go </think>",
        "go </think> up",
        "go </think> <answer> up",
        "go </think> so <answer> up </answer>",
        "<answer> up </answer>",
        "<answer> up </answer> </think>",
    ):
        assert answer_of(text) is None


def test_empty_sections_are_valid_and_empty():
    assert answer_of("</think><answer></answer>") == ""


@given(st.lists(pieces, max_size=15).map("".join))
def test_an_answer_is_a_part_of_the_text(text):
    answer = answer_of(text)
    assert answer is None or (answer in text and answer == answer.strip())


@given(
    think=st.text(alphabet="abc <>\n", max_size=20),
    answer=st.text(alphabet="abc <>|\n", max_size=20),
    prefilled=st.booleans(),
    tail=st.text(max_size=10),
)
def test_what_is_put_in_comes_out(think, answer, prefilled, tail):
    opening = "" if prefilled else "<think>"
    assert answer_of(f"{opening}{think}</think> \n<answer>{answer}</answer>{tail}") == answer.strip()
