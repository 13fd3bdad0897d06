"""Render a Table as Markdown, CSV and LaTeX. Pure functions to text; equal tables give equal bytes."""

from __future__ import annotations

import csv
import io
import math
import unicodedata
from collections.abc import Iterable
from functools import lru_cache
from typing import Any

from plat_analysis.artifact import Cell, Table
from plat_analysis.shown_text import printable

STARRED = ("good", "bad", "starred")  # tones shown by a star


def groups(table: Table) -> list[tuple[str, int]]:
    """Return [(heading, number of neighbouring columns), ...]; a column without a group has the heading "" alone."""
    spans: list[tuple[str, int]] = []
    for column in table.columns:
        if column.group and spans and spans[-1][0] == column.group:
            spans[-1] = (column.group, spans[-1][1] + 1)
        else:
            spans.append((column.group, 1))
    return spans


def stubs(table: Table) -> int:
    """Return how many columns name the rows: those before the first numeric one, or 1 if none is numeric."""
    numeric = [column.numeric for column in table.columns]
    return numeric.index(True) if True in numeric else 1


def markdown(table: Table) -> str:
    """Return a GitHub table, with headings `group: column`, then the notes."""

    def show(cell: Cell) -> str:
        text = inert(cell.text) + ("\\*" if cell.tone in STARRED else "")
        if cell.mark:
            text += f"<sup>{cell.mark}</sup>"
        return f"**{text}**" if cell.tone == "strong" and cell.text else text

    heads = [": ".join(filter(None, [column.group, column.title])) for column in table.columns]
    aligns = ["---:" if column.numeric else ":---" for column in table.columns]
    lines = [f"### {inert(table.title)}", ""]
    if table.whole_caption:
        lines += [inert(table.whole_caption), ""]
    lines += [_piped(map(inert, heads)), _piped(aligns)]
    for row in table.rows:
        if row.section:
            lines.append(_piped([f"*{inert(row.section)}*", *[""] * (len(table.columns) - 1)]))
        lines.append(_piped([show(cell) for cell in row.cells]))
    if table.notes:
        lines += ["", *(f"- {f'<sup>{n.mark}</sup> ' if n.mark else ''}{inert(n.text)}" for n in table.notes)]
    return "\n".join(lines) + "\n"


def inert(text: str) -> str:
    """Escape text that Markdown could read as a tag, an entity, a link's target or a table's bar."""
    return (
        text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;").replace("|", "\\|").replace("](", "]\\(")
    )


def _piped(cells: Iterable[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def tidy(records: list[dict[str, Any]]) -> str:
    """Return CSV with a header, one line per record; columns in order of first appearance.

    Floats have 10 decimals at most; None and NaN are empty. Text that could be a formula gets an apostrophe in front.
    """
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


@lru_cache(10_000)  # names of rows and runs repeat in very many lines
def _text(value: str) -> str:
    return _no_formula(printable(value))


def _no_formula(text: str) -> str:
    """Prefix text that a spreadsheet would run as a formula with an apostrophe (OWASP's rule); numbers stay."""
    if not text.startswith(("=", "+", "-", "@")):
        return text
    try:
        float(text)
    except ValueError:
        return "'" + text
    return text


# Render a Table as LaTeX, for pdflatex with `booktabs`. Equal tables give equal bytes.

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
    "—": r"\textemdash{}",
    "–": r"\textendash{}",
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
GREEK = (
    "alpha beta gamma delta epsilon zeta eta theta iota kappa lamda mu nu xi pi rho sigma tau upsilon phi chi psi omega"
)
LATEX |= {
    unicodedata.lookup(f"GREEK SMALL LETTER {name.upper()}"): rf"$\{name.replace('lamda', 'lambda')}$"
    for name in GREEK.split()
}
# Accents that pdflatex sets without a package, as the second part of a letter's decomposition.
ACCENTS = frozenset("\u0300\u0301\u0302\u0303\u0304\u0306\u0307\u0308\u030a\u030b\u030c\u0327")
OTHER_LETTERS = frozenset("ßæøåœłıÆØÅŒŁ")


def escape(text: str) -> str:
    """Return text that LaTeX prints as it is; characters that it cannot print become `?`."""
    letters = unicodedata.normalize("NFC", text)
    printed = "".join(LATEX.get(letter) or (letter if _is_plain(letter) else "?") for letter in letters)
    return printed.replace("--", "-{}-")  # two hyphens would be set as a dash


def _is_plain(character: str) -> bool:
    """Return True if pdflatex prints the character without a further package."""
    if character in OTHER_LETTERS or character.isascii():
        return character.isprintable()
    parts = unicodedata.normalize("NFD", character)
    return len(parts) == 2 and parts[0].isascii() and parts[0].isalpha() and parts[1] in ACCENTS


def latex(table: Table) -> str:
    """Return a `table*` of the rows, except those with `Row.detail`. The document must load the package `booktabs`."""

    def show(cell: Cell) -> str:
        text = escape(cell.text)
        if text.startswith("["):
            text = "{" + text + "}"  # after \\ a bracket would be its optional argument
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
        rf"\caption{{{escape(table.title)}. {escape(table.whole_caption)}}}",
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
