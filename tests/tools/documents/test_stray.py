"""Numbers that look measured outside of the regions of a page, and those that the page says nobody measured."""

from __future__ import annotations

from pathlib import Path

import pytest
from tools.documents.regions import stray_numbers

PAGE = Path("docs/results.md")
MEASURED = ["+3.2", "−4", "16.0\\*", "9*", "71 ± 3", "[1.2, 3.4]", "82.5 %", "5.5 points", "[−1.0, 2]", "0.12", ".25"]
MEASURED += ["12 of 20", "three of the five runs", "none of ten", "p = .01", "p .011", "p < .05", "within 2 points"]
MEASURED += ["a sixth of its success", "seven minutes", "95 %", "8 of\nthe 34"]


@pytest.mark.parametrize("number", MEASURED)
def test_a_measured_number_outside_of_a_region_is_seen(number):
    found = stray_numbers(PAGE, f"Text.\nIt is {number} here.\n")
    assert found and all(line.startswith("docs/results.md:2: ") for line in found)
    assert stray_numbers(PAGE, f"It is <!-- results: x -->{number}<!-- end --> here, and `12 of 20`.\n") == []


@pytest.mark.parametrize(
    "text",
    [
        "**bold 3**",
        "Python 3.11 or later",
        "seeds 0-4",
        "arXiv 2604.06268",
        "Qwen2.5-3B",
        "1 + 1",
        "512 instances of every task",
        "[a link](results-0.5.md)",
        "a third build",
        "    pip install x==0.9.1",
    ],
)
def test_other_numbers_are_let_be(text):
    assert stray_numbers(PAGE, text) == []


def test_given_numbers_are_named_on_their_line():
    text = "A cost of .003, seen by one in eight. <!-- given: .003; one in eight -->\n"
    assert stray_numbers(PAGE, text) == []
    edited = stray_numbers(PAGE, text.replace("of .003", "of .005"))
    assert edited == [
        "docs/results.md:1: '.003' is given, and is not on this line",
        "docs/results.md:1: .005 looks measured and stands in no region",
    ]
    elsewhere = stray_numbers(PAGE, text + "And .003 here.\n")
    assert elsewhere == ["docs/results.md:2: .003 looks measured and stands in no region"]


def test_a_table_without_its_marks_is_seen():
    table = "| seed | retrieval |\n| ---: | ---: |\n| 0 | 0.12 |\n"
    assert stray_numbers(PAGE, f"<!-- results: x table y -->\n\n{table}\n<!-- end -->\n") == []
    assert stray_numbers(PAGE, table) == ["docs/results.md:3: 0.12 looks measured and stands in no region"]
