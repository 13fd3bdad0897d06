"""A Table as Markdown, CSV and LaTeX. Pure functions to text; equal tables give equal bytes."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterable
from functools import lru_cache
from typing import Any

from plat_analysis.artifact import Cell, Table
from plat_analysis.text import printable

STARRED = ("good", "bad")  # tones that need a sign where there is no colour


def groups(table: Table) -> list[tuple[str, int]]:
    """Neighbouring columns under one heading: [(heading, number of columns), ...]."""
    spans: list[tuple[str, int]] = []
    for column in table.columns:
        if column.group and spans and spans[-1][0] == column.group:
            spans[-1] = (column.group, spans[-1][1] + 1)
        else:
            spans.append((column.group, 1))
    return spans


def markdown(table: Table) -> str:
    """A GitHub table, with headings `group: column`, then the notes."""

    def show(cell: Cell) -> str:
        text = inert(cell.text) + ("\\*" if cell.tone in STARRED else "")
        if cell.mark:
            text += f"<sup>{cell.mark}</sup>"
        return f"**{text}**" if cell.tone == "strong" and cell.text else text

    heads = [": ".join(filter(None, [column.group, column.title])) for column in table.columns]
    aligns = ["---:" if column.numeric else ":---" for column in table.columns]
    lines = [f"### {inert(table.title)}", ""]
    if table.caption:
        lines += [inert(table.caption), ""]
    lines += [_piped(map(inert, heads)), _piped(aligns)]
    for row in table.rows:
        if row.section:
            lines.append(_piped([f"*{inert(row.section)}*", *[""] * (len(table.columns) - 1)]))
        lines.append(_piped([show(cell) for cell in row.cells]))
    if table.notes:
        lines += ["", *(f"- {f'<sup>{n.mark}</sup> ' if n.mark else ''}{inert(n.text)}" for n in table.notes)]
    return "\n".join(lines) + "\n"


def inert(text: str) -> str:
    """Text that Markdown shows as it is where it could be a tag, an entity, a link's target or a table's bar."""
    return (
        text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;").replace("|", "\\|").replace("](", "]\\(")
    )


def _piped(cells: Iterable[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def tidy(records: list[dict[str, Any]]) -> str:
    """CSV, one line per record; columns in order of first appearance; floats in full, missing as nothing."""
    names = list(dict.fromkeys(name for line in records for name in line))
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(map(_no_formula, map(printable, names)))
    for line in records:
        writer.writerow([_plain(line.get(name)) for name in names])
    return out.getvalue()


def _plain(value: Any) -> str:
    kind = type(value)
    if kind is str:
        return _text(value)
    if kind is int:
        return str(value)
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return ""
    if isinstance(value, float):
        return repr(float(round(value, 10)))
    return _no_formula(printable(value))


@lru_cache(10_000)  # names of rows and runs stand in very many lines
def _text(value: str) -> str:
    return _no_formula(printable(value))


def _no_formula(text: str) -> str:
    """Text that a spreadsheet does not run: a cell that begins like a formula gets an apostrophe (OWASP's rule), unless
    it is a number, such as −3."""
    if not text.startswith(("=", "+", "-", "@")):
        return text
    try:
        float(text)
    except ValueError:
        return "'" + text
    return text


LATEX = {
    "\\": r"\textbackslash{}",
    "&": r"\&",
    "%": r"\%",
    "$": r"\$",
    "#": r"\#",
    "_": r"\_",
    "{": r"\{",
    "}": r"\}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "−": "$-$",
    "Δ": r"$\Delta$",
    "…": r"\ldots{}",
    "—": "---",
    "–": "--",
    "”": "''",
    "’": "'",
    "×": r"$\times$",
    "·": r"$\cdot$",
    "≤": r"$\le$",
    "≥": r"$\ge$",
    "±": r"$\pm$",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    "→": r"$\rightarrow$",
    "↓": r"$\downarrow$",
    "▼": r"$\downarrow$",
    "÷": r"$\div$",
    "“": "``",
}


def escape(text: str) -> str:
    """Text that LaTeX prints as it is; characters it has no name for are replaced by `?`."""
    return "".join(LATEX.get(c, c if c.isascii() or c.isalpha() else "?") for c in text)


def latex(table: Table) -> str:
    r"""A `table*` for a document with `\usepackage{booktabs}`, without the lines of detail."""

    def show(cell: Cell) -> str:
        text = escape(cell.text)
        if text.startswith("["):
            text = "{" + text + "}"  # a bracket after \\ would be read as its optional argument
        if cell.tone == "strong" and text:
            text = rf"\textbf{{{text}}}"
        raised = cell.mark + ("*" if cell.tone in STARRED else "")
        return text + (f"$^{{{raised}}}$" if raised else "")

    width = len(table.columns)
    spec = "".join("r" if column.numeric else "l" for column in table.columns)
    lines = [
        r"% needs \usepackage{booktabs}",
        r"\begin{table*}[t]",
        r"\centering\footnotesize\setlength{\tabcolsep}{3pt}",
        rf"\caption{{{escape(table.title)}. {escape(table.caption)}}}",
        rf"\label{{tab:{table.name}}}",
        rf"\begin{{tabular}}{{{spec}}}",
        r"\toprule",
    ]
    if any(column.group for column in table.columns):
        heads, rules, at = [], [], 1
        for title, span in groups(table):
            heads.append(rf"\multicolumn{{{span}}}{{c}}{{{escape(title)}}}")
            rules += [rf"\cmidrule(lr){{{at}-{at + span - 1}}}"] if title else []
            at += span
        lines += [" & ".join(heads) + r" \\", "".join(rules)]
    lines += [" & ".join(escape(column.title) for column in table.columns) + r" \\", r"\midrule"]
    for index, row in enumerate(row for row in table.rows if not row.detail):
        if row.rule and index:
            lines.append(r"\midrule" if row.section else r"\addlinespace")
        if row.section:
            lines.append(rf"\multicolumn{{{width}}}{{l}}{{\textit{{{escape(row.section)}}}}} \\")
        lines.append(" & ".join(show(cell) for cell in row.cells) + r" \\")
    lines += [r"\bottomrule", r"\end{tabular}"]
    if table.notes:
        notes = " ".join(f"{f'$^{{{n.mark}}}$' if n.mark else ''}{escape(n.text)}" for n in table.notes)
        lines += ["", rf"\vspace{{2pt}}\parbox{{\textwidth}}{{\scriptsize {notes}}}"]
    return "\n".join([*lines, r"\end{table*}", ""])
