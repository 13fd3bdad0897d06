"""Sections of responses: both forms, spans that point at them, and no exception on anything."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from plat_envs.parsing import parse

TAGS = ("<think>", "</think>", "<answer>", "</answer>")
pieces = st.one_of(st.sampled_from(TAGS), st.sampled_from((" ", "\n", "||")), st.text(max_size=6))


def test_the_whole_response():
    parsed = parse("<think> go up </think> <answer> up || left </answer>")
    assert parsed[:3] == ("go up", "up || left", True)


def test_the_prefilled_response():
    parsed = parse("go up </think>\n<answer>up</answer> and so on")
    assert parsed[:3] == ("go up", "up", True)


def test_text_before_the_opening_tag_is_no_thought():
    assert parse("well, <think>go</think><answer>up</answer>")[:3] == ("go", "up", True)


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
        parsed = parse(text)
        assert not parsed.valid and parsed.answer == ""


def test_an_unfinished_thought_is_a_thought():
    assert parse("<think> go up and").think == "go up and"


def test_empty_sections_are_valid_and_empty():
    assert parse("</think><answer></answer>")[:3] == ("", "", True)


@given(st.lists(pieces, max_size=15).map("".join))
def test_spans_point_at_the_sections(text):
    parsed = parse(text)
    for part, (start, end) in ((parsed.think, parsed.think_span), (parsed.answer, parsed.answer_span)):
        assert 0 <= start <= end <= len(text)
        assert text[start:end] == part == part.strip()


@given(
    think=st.text(alphabet="abc <>\n", max_size=20),
    answer=st.text(alphabet="abc <>|\n", max_size=20),
    prefilled=st.booleans(),
    tail=st.text(max_size=10),
)
def test_what_is_put_in_comes_out(think, answer, prefilled, tail):
    opening = "" if prefilled else "<think>"
    parsed = parse(f"{opening}{think}</think> \n<answer>{answer}</answer>{tail}")
    assert parsed[:3] == (think.strip(), answer.strip(), True)
