"""Render a Table as LaTeX, for pdflatex with `booktabs`. Equal tables give equal bytes."""

from __future__ import annotations

import unicodedata

from plat_analysis.artifact import Cell, Table
from plat_analysis.report.render import STARRED, groups

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
