"""Marked regions of pages."""

from __future__ import annotations

from pathlib import Path

import pytest
from tools.documents.regions import rewritten

from plat.errors import SpecError

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
