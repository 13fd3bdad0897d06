"""LaTeX of tables: its structure, and that pdflatex makes a page of it."""

from __future__ import annotations

import re
import shutil
import subprocess

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plat_analysis.artifact import Cell, Column, Note, Row, Table
from plat_analysis.report import render
from plat_analysis.tables import peak_success

DOCUMENT = r"""\documentclass{article}
\usepackage{booktabs}
\begin{document}
%s
\end{document}
"""
HOSTILE = "\\ & % $ # _ {x} ~ ^ [y] < > | -- é α 中 − Δ … “q” \u202e \x07 e\u0301 ą"


@pytest.fixture
def table(make_experiment, make_frames):
    experiment = make_experiment(rows=["PPO", "Dr. GRPO", "Qwen2.5-3B-Instruct"], tasks=["sokoban", "metamathqa"])
    frames = make_frames(experiment, holes={experiment.runs[1].id: "failed:oom"})
    return peak_success.build(frames, experiment, paper="table4")[0]


def test_latex_is_structurally_sound(table):
    text = render.latex(table)
    assert text.count("{") - text.count(r"\{") == text.count("}") - text.count(r"\}")
    for environment in ("table*", "tabular"):
        assert text.count(rf"\begin{{{environment}}}") == text.count(rf"\end{{{environment}}}") == 1
    order = [text.index(rule) for rule in (r"\toprule", r"\midrule", r"\bottomrule")]
    assert order == sorted(order)
    body = text[text.index(r"\midrule") : text.index(r"\bottomrule")]
    lines = [line for line in body.splitlines() if line.endswith(r"\\") and "multicolumn" not in line]
    shown = [row for row in table.rows if not row.detail]
    assert {row.cells[1].text for row in shown} == {"peak", "paper"}
    assert len(lines) == len(shown) and {line.count(" & ") for line in lines} == {len(table.columns) - 1}
    spec = re.search(r"\\begin\{tabular\}\{([lr]+)\}", text)
    assert spec and len(spec[1]) == len(table.columns)
    assert not re.search(r"\\\\\s*\[", text) and text.count("$") % 2 == 0
    assert all(character.isascii() for character in text)


@given(st.text(alphabet=st.characters(codec="utf-8", exclude_categories=["Cs", "Cc"]), max_size=40))
def test_latex_escapes_everything_special(text):
    escaped = render.escape(text)
    bare = re.sub(r"\\[&%$#_{}]|\\[a-z]+(\{\})?|\\text[a-z]+\{\}", "", escaped)
    assert not re.search(r"[&%#_~^]", bare)


def test_two_hyphens_stay_two():
    assert render.escape("--home — here") == r"-{}-home \textemdash{} here"


def test_accents_and_greek_letters_are_kept_and_others_are_not():
    assert render.escape("é e\u0301 α 中 ą") == r"é é $\alpha$ ? ?"


@pytest.mark.skipif(not shutil.which("pdflatex"), reason="needs pdflatex (Debian: texlive-latex-recommended)")
def test_pdflatex_makes_a_page(table, tmp_path):
    hostile = Cell(HOSTILE, tone="strong", mark="a")
    everything = Table(
        "hostile",
        HOSTILE,
        [Column(HOSTILE), Column(HOSTILE, group=HOSTILE, numeric=True)],
        [Row((hostile, Cell("[1, 2]"))), Row((Cell("[0]"), Cell("")), section=HOSTILE, rule=True)],
        caption=HOSTILE,
        notes=[Note(HOSTILE, "a")],
    )
    text = DOCUMENT % (render.latex(table) + render.latex(everything))
    (tmp_path / "table.tex").write_text(text, encoding="utf-8")
    made = subprocess.run(
        ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "table.tex"], cwd=tmp_path, capture_output=True
    )
    assert made.returncode == 0, made.stdout.decode(errors="replace")[-2000:]
    log = (tmp_path / "table.log").read_text(errors="replace")
    assert "Missing character" not in log and (tmp_path / "table.pdf").stat().st_size > 0
