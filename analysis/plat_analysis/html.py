"""The report as one self-contained HTML page: no script, no network, no other file. Equal reports, equal bytes."""

from __future__ import annotations

from collections import Counter
from html import escape
from importlib import resources
from typing import TYPE_CHECKING

from plat_analysis import style
from plat_analysis.artifact import Cell, Figure, Table
from plat_analysis.labels import is_stand_in, model_really
from plat_analysis.published import discrepancies
from plat_analysis.render import groups
from plat_analysis.runs_table import runs_table

if TYPE_CHECKING:
    from plat_analysis.claims.engine import Verdict
    from plat_analysis.report import Report

CSS = (resources.files("plat_analysis") / "report.css").read_text()


def page(report: Report, pictures: dict[str, bytes]) -> str:
    """The page; `pictures` are the figures' SVGs by name."""
    experiment = report.experiment
    body = [_summary(report)]
    if report.artifacts:  # in the order of the experiment file
        shown = (_table(a) if isinstance(a, Table) else _figure(a, pictures[a.name]) for a in report.artifacts)
        body.append("<h2>Results</h2>" + "".join(shown))
    if report.claims:
        body.append("<h2>Claims</h2>" + "".join(_claim(verdict) for verdict in report.claims))
    known = list(dict.fromkeys(found.text for found in discrepancies(experiment, None)))
    if known:
        items = "".join(f"<li>{escape(text)}</li>" for text in known)
        body.append(
            "<h2>Known contradictions of the publication</h2><p class=caption>Where the paper contradicts itself "
            f"or its released code.</p><ul class=notes>{items}</ul>"
        )
    body.append("<h2>Runs</h2>" + _table(runs_table(report.results), heading=False))
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(experiment.title)}</title>\n<style>{CSS}</style>\n</head>\n<body>\n<main>\n"
        + "\n".join(body)
        + "\n<footer>Made by plat from its store alone; hover over a number for its interval and the ids of its runs."
        + "</footer>\n</main>\n</body>\n</html>\n"
    )


def _summary(report: Report) -> str:
    experiment, runs = report.experiment, report.results.runs
    done = [run for run in runs if not run.missing]
    verdicts = Counter(verdict.status for verdict in report.claims)
    facts = [(f"{len(done)}/{len(runs)}", "runs with a result"), (experiment.scale, "scale")]
    seeds = sorted({str(run.seed) for run in runs})
    facts.append((str(len(seeds)), "seed" if len(seeds) == 1 else "seeds"))
    facts += [
        (str(n), f"claim{'s' if n > 1 else ''} {status.replace('_', ' ')}") for status, n in sorted(verdicts.items())
    ]
    items = "".join(f"<li><b>{escape(value)}</b><span>{escape(text)}</span></li>" for value, text in facts)
    source = " · ".join(filter(None, [experiment.paper, experiment.source, experiment.name]))
    text = f"<h1>{escape(experiment.title)}</h1><p class=lead>{escape(source)}</p><ul class=facts>{items}</ul>"
    absent = Counter(run.missing for run in runs if run.missing)
    if absent:
        told = ", ".join(f"{n} {why}" for why, n in sorted(absent.items()))
        text += f"<p class=missing>Missing: {escape(told)}. Cells that need them are blank or count their seeds.</p>"
    if any(is_stand_in(run) for run in runs):
        text += (
            f"<p>Models that really ran: {escape(model_really(runs))}. These are small stand-ins trained from scratch "
            "in the place of the paper’s models: compare signs and orders with the paper, not levels.</p>"
        )
    return text


def _table(table: Table, heading: bool = True) -> str:
    head = f"<h3>{escape(table.title)}</h3>" if heading else ""
    if table.caption:
        head += f"<p class=caption>{escape(table.caption)}</p>"
    starts, at, tops = set(), 0, ""
    for title, span in groups(table):
        starts.add(at)
        tops += f'<th colspan="{span}">{escape(title)}</th>'
        at += span
    if any(column.group for column in table.columns):
        tops = f'<tr class="groups">{tops}</tr>'
    else:
        tops, starts = "", set()
    names = "".join(
        f"<th{_classes(['n' if c.numeric else '', 'first' if i in starts else ''])}>{escape(c.title)}</th>"
        for i, c in enumerate(table.columns)
    )
    rows = []
    for row in table.rows:
        if row.section:
            rows.append(f'<tr class="section"><td colspan="{len(table.columns)}">{escape(row.section)}</td></tr>')
        cells = "".join(
            _cell(cell, ["n" if column.numeric else "", "first" if i in starts else ""])
            for i, (cell, column) in enumerate(zip(row.cells, table.columns, strict=True))
        )
        rows.append(f"<tr{_classes(['rule' if row.rule else ''])}>{cells}</tr>")
    notes = "".join(
        f"<li>{f'<sup>{note.mark}</sup> ' if note.mark else ''}{escape(note.text)}</li>" for note in table.notes
    )
    foot = f"<ul class=notes>{notes}</ul>" if notes else ""
    return (
        f'{head}<div class="scroll"><table id="{escape(table.name)}"><thead>{tops}<tr>{names}</tr></thead>'
        f"<tbody>\n{chr(10).join(rows)}\n</tbody></table></div>{foot}"
    )


def _cell(cell: Cell, classes: list[str]) -> str:
    title = f' title="{escape(cell.title, quote=True)}"' if cell.title else ""
    mark = f"<sup>{escape(cell.mark)}</sup>" if cell.mark else ""
    return f"<td{_classes([*classes, cell.tone])}{title}>{escape(cell.form(1))}{mark}</td>"


def _classes(names: list[str]) -> str:
    joined = " ".join(filter(None, names))
    return f' class="{joined}"' if joined else ""


def _figure(figure: Figure, svg: bytes) -> str:
    caption = f"<figcaption><b>{escape(figure.title)}.</b> {escape(figure.caption)}</figcaption>"
    return f"<figure>{style.inline(figure, svg)}{caption}</figure>"


def _claim(verdict: Verdict) -> str:
    word = verdict.status.replace("_", " ")
    runs = escape(" ".join(verdict.run_ids), quote=True)
    detail = f'<span class="caption" title="{runs}">{escape(verdict.detail)} ({len(verdict.run_ids)} runs)</span>'
    says = escape(verdict.says or verdict.id)
    return f'<div class="claim {verdict.status}"><span class="verdict">{word}</span> — {says}<br>{detail}</div>'
