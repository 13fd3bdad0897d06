"""Renderers: structure of Markdown, fixed widths on the terminal, nothing lost."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from plat_analysis.artifact import Cell, Column, Row, Table, number, short_interval
from plat_analysis.report import render, terminal
from plat_analysis.statistics.intervals import Estimate
from plat_analysis.tables import peak_success


@pytest.fixture
def table(make_experiment, make_frames):
    experiment = make_experiment(rows=["PPO", "Dr. GRPO", "Qwen2.5-3B-Instruct"], tasks=["sokoban", "metamathqa"])
    frames = make_frames(experiment, holes={experiment.runs[1].id: "failed:oom"})
    return peak_success.build(frames, experiment, paper="table4")[0]


def test_markdown_has_one_width(table):
    lines = [line for line in render.markdown(table).splitlines() if line.startswith("|")]
    assert {line.replace("\\|", "").count("|") for line in lines} == {len(table.columns) + 1}
    assert "**PPO**" in render.markdown(table) and "failed:oom" in render.markdown(table)


@pytest.mark.parametrize("width", [90, 120, 160, 240])
def test_terminal_fits_and_aligns(table, width):
    console = Console(width=width, record=True, file=io.StringIO())
    terminal.print_table(console, table)
    lines = console.export_text().splitlines()
    assert max(map(len, lines)) <= width
    rule = next(i for i, line in enumerate(lines) if line.startswith("──"))
    ours = [line for line in lines[rule:] if "  peak " in line]
    assert len(ours) == 3 and len({line.index(".", 30) for line in ours}) == 1
    assert ours[1].rindex(".") == ours[2].rindex(".") and ours[0].rstrip().endswith("—")


def test_terminal_of_the_whole_table_fits_120_columns(make_experiment, make_frames):
    experiment = make_experiment()
    table = peak_success.build(make_frames(experiment, steps=20), experiment)[0]
    for width in (120, 160):
        console = Console(width=width, record=True, file=io.StringIO())
        terminal.print_table(console, table)
        assert max(map(len, console.export_text().splitlines())) <= width
        assert "…\n" not in console.export_text()


def test_a_table_too_wide_for_the_terminal_is_printed_in_parts(make_experiment, make_frames):
    experiment = make_experiment()
    table = peak_success.build(make_frames(experiment, steps=20), experiment)[0]
    console = Console(width=80, record=True, file=io.StringIO())
    terminal.print_table(console, table)
    shown = console.export_text()
    assert max(map(len, shown.splitlines())) <= 80
    parts = shown.count("\n──")
    assert parts > 1 and shown.count(table.title) == shown.count(table.caption[:40]) == 1
    assert all(shown.count(f"\n{row.section}\n") == parts for row in table.rows if row.section)
    assert all(column.group in shown for column in table.columns)


def test_narrow_terminals_keep_every_number(table):
    console = Console(width=40, record=True, file=io.StringIO())
    terminal.print_table(console, table)
    shown = console.export_text()
    assert all(cell.text in shown for row in table.rows for cell in row.cells if not cell.shorter)


def test_csv_keeps_full_precision_and_blanks():
    text = render.tidy([{"a": 0.1 + 0.2, "b": None}, {"a": float("nan"), "c": "x,y"}])
    assert text == 'a,b,c\n0.3,,\n,,"x,y"\n'


def test_a_spreadsheet_runs_nothing_and_keeps_negative_numbers():
    text = render.tidy([{"a": "=HYPERLINK(1)", "b": "-0.4", "c": -0.4, "d": "@x", "e": "+1e3", "=f": "-x"}])
    assert text == "a,b,c,d,e,'=f\n'=HYPERLINK(1),-0.4,-0.4,'@x,+1e3,'-x\n"


def test_markdown_shows_html_as_text():
    table = Table("t", "<b>T</b>", [Column("<i>", group="g|h")], [Row((Cell("<img src=x onerror=1> [a](b) c|d"),))])
    text = render.markdown(table)
    assert "<b>" not in text and "<img" not in text and "<i>" not in text and "&lt;img" in text
    assert "[a](b)" not in text and "c\\|d" in text and "g\\|h" in text


def test_numbers_are_written_as_people_read_them():
    assert [number(v, signed=True) for v in (16.0, -0.4, 0.0, -0.04, None)] == ["+16.0", "−0.4", "0.0", "0.0", "—"]
    assert short_interval(Estimate(value=5, low=0.4, high=10.2), signed=True) == "+0.4…+10"
    assert short_interval(Estimate(value=5)) == ""


def test_marks_reach_every_format():
    table = Table("t", "T", [Column("x")], [Row((Cell("1", mark="a"),))])
    assert "1<sup>a</sup>" in render.markdown(table) and "1$^{a}$" in render.latex(table)
    console = Console(width=80, record=True, file=io.StringIO())
    terminal.print_table(console, table)
    assert "1ᵃ" in console.export_text()
