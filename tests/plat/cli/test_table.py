"""Tables fit the terminal, and no cell of them is cut."""

from __future__ import annotations

from hypothesis import example, given
from hypothesis import strategies as st

from plat.characters import columns_of
from plat.cli.screen.table import table

HEADER = ("run", "state", "success")
ROWS = [("sokoban-grpo-qwen2.5-3b-s0-1a2b3c4d", "done", 0.5), ("short", "running", None)]


def test_a_table_that_fits_has_one_line_per_row():
    assert table(HEADER, ROWS, 80).splitlines() == [
        "  run                                  state    success",
        "  sokoban-grpo-qwen2.5-3b-s0-1a2b3c4d  done         0.5",
        "  short                                running",
    ]


def test_one_that_does_not_fit_gives_every_name_a_line_of_its_own():
    assert table(HEADER, ROWS, 40).splitlines() == [
        "  sokoban-grpo-qwen2.5-3b-s0-1a2b3c4d",
        "    state done · success 0.5",
        "  short",
        "    state running",
    ]


def test_no_rows_are_no_table():
    assert table(HEADER, [], 80) == ""


def test_wide_characters_count_as_two():
    assert columns_of("日本") == 4
    lines = table(("a", "b"), [("日本", "x"), ("abcd", "y")], 80).splitlines()
    assert lines[1].index("x") + 2 == lines[2].index("y")


words = st.text("abc-", min_size=1, max_size=30)


@example([("a", "a", "aaaaaaaaaaaaaaaaaaaaaaaaaa-aa")], 40)
@given(st.lists(st.tuples(words, words, words), min_size=1, max_size=4), st.integers(40, 200))
def test_no_cell_is_ever_cut_and_no_line_is_too_long(rows, width):
    text = table(HEADER, rows, width)
    assert all(len(line) <= width for line in text.splitlines())
    assert all(cell in text for row in rows for cell in row)
