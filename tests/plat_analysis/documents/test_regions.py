"""Marked regions of pages, and numbers outside of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from plat.errors import SpecError
from plat_analysis.documents.regions import rewritten, stray_numbers

PAGE = Path("docs/results.md")


def write(text):
    return rewritten(PAGE, text, lambda what, place: f"<{what} at {place}>")


def test_blocks_stand_alone_and_inline_regions_in_their_sentence():
    text = "a\n<!-- results: x -->\nold\n<!-- end -->\nb <!-- results: y z -->old<!-- end --> c\n"
    new = (
        "a\n<!-- results: x -->\n\n<x at docs/results.md:2>\n\n<!-- end -->\n"
        "b <!-- results: y z --><y z at docs/results.md:5><!-- end --> c\n"
    )
    assert write(text) == new
    assert write(write("b <!-- results: y -->1<!-- end -->")) == write("b <!-- results: y -->2<!-- end -->")


@pytest.mark.parametrize(
    "text", ["`<!-- results: x -->` and text", "```\n<!-- results: x -->\n<!-- end -->\n```\n", "plain"]
)
def test_code_and_plain_pages_stay(text):
    assert write(text) == text


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("a\n<!-- results: x -->\n", 2),
        ("<!-- end -->", 1),
        ("<!-- results: x --> <!-- results: y --> <!-- end -->", 1),
        ("<!-- results: x --><!-- end -->\n\n<!-- end -->", 3),
    ],
)
def test_a_mark_without_its_partner_is_named(text, line):
    with pytest.raises(SpecError, match="no partner") as error:
        write(text)
    assert error.value.where == f"docs/results.md:{line}"


@pytest.mark.parametrize(
    "number", ["+3.2", "−4", "16.0\\*", "9*", "71 ± 3", "[1.2, 3.4]", "82.5 %", "5.5 points", "[−1.0, 2]"]
)
def test_a_measured_number_outside_of_a_region_is_seen(number):
    assert len(stray_numbers(PAGE, f"Text.\nIt is {number} here.\n")) == 1
    assert stray_numbers(PAGE, f"It is <!-- results: x -->{number}<!-- end --> here, and `{number}`.\n") == []


@pytest.mark.parametrize(
    "text",
    ["at most 5 %", "**bold 3**", "Python 3.11 or 3.12", "version 0.1", "seeds 0-4", "arXiv 2604.06268", "Δ", "1 + 1"],
)
def test_other_numbers_are_let_be(text):
    assert stray_numbers(PAGE, text) == []
