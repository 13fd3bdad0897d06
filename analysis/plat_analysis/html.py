"""The report as one self-contained HTML page: no script, no network, nothing beside it needed. Equal reports, equal bytes."""

from __future__ import annotations

from collections import Counter
from html import escape
from typing import TYPE_CHECKING

from plat_analysis import style
from plat_analysis.artifact import Cell, Figure, Table
from plat_analysis.labels import is_stand_in, model_really
from plat_analysis.published import discrepancies
from plat_analysis.render import groups
from plat_analysis.runs_table import runs_table

if TYPE_CHECKING:
    from plat_analysis.report import Report

CSS = """
:root { --ink: #1f2328; --quiet: #656d76; --line: #d8dee4; --soft: #f6f8fa; --good: #0a7d4b; --bad: #b3261e; --warn: #8a5a00; }
* { box-sizing: border-box; }
body { margin: 0; color: var(--ink); background: #fff; font: 15px/1.55 system-ui, -apple-system, "Segoe UI", Roboto, sans-serif; }
main { max-width: 1180px; margin: 0 auto; padding: 2.5rem 1.5rem 4rem; }
h1 { font-size: 1.7rem; line-height: 1.25; margin: 0 0 .3rem; letter-spacing: -.01em; }
h2 { font-size: 1.2rem; margin: 2.8rem 0 .6rem; padding-top: .9rem; border-top: 1px solid var(--line); }
h3 { font-size: 1rem; margin: 1.8rem 0 .2rem; }
p { margin: .3rem 0 .8rem; max-width: 78ch; }
.lead, .caption, .notes { color: var(--quiet); }
.caption { font-size: .9rem; }
.facts { display: flex; flex-wrap: wrap; gap: .8rem; margin: 1.2rem 0; padding: 0; list-style: none; }
.facts li { background: var(--soft); border-radius: 8px; padding: .55rem .9rem; min-width: 8rem; }
.facts b { display: block; font-size: 1.25rem; font-variant-numeric: tabular-nums; }
.facts span { color: var(--quiet); font-size: .85rem; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; font-size: .84rem; font-variant-numeric: tabular-nums; margin: .4rem 0; }
th, td { padding: .13rem .5rem; text-align: left; white-space: nowrap; font-weight: 400; }
thead th { color: var(--quiet); border-bottom: 1.5px solid var(--ink); vertical-align: bottom; }
thead tr.groups th { color: var(--ink); font-weight: 600; text-align: right; border-bottom: 0; }
.n { text-align: right; }
.first { padding-left: 1.1rem; }
tr.rule td { padding-top: .55rem; border-top: 1px solid var(--line); }
tr.section td { padding-top: 1rem; color: var(--quiet); font-style: italic; border-top: 1px solid var(--line); }
tr.section + tr.rule td { border-top: 0; padding-top: .2rem; }
.strong { font-weight: 600; } .dim { color: var(--quiet); } .good { color: var(--good); font-weight: 600; }
.bad { color: var(--bad); font-weight: 600; } .missing { color: var(--warn); font-style: italic; }
td[title]:hover { background: #fff3c4; cursor: help; }
.notes { font-size: .84rem; padding-left: 1.1rem; max-width: 90ch; } .notes li { margin: .15rem 0; }
figure { margin: 1.4rem 0 2rem; } figure svg { width: 100%; height: auto; display: block; }
figcaption { color: var(--quiet); font-size: .9rem; max-width: 90ch; } figcaption b { color: var(--ink); }
.claim { margin: .8rem 0; padding: .1rem 0 .1rem 1rem; border-left: 4px solid var(--line); }
.claim.reproduced { border-color: var(--good); } .claim.partial { border-color: #d29922; }
.claim.not_reproduced { border-color: var(--bad); }
.verdict { font-weight: 600; } .reproduced .verdict { color: var(--good); } .partial .verdict { color: var(--warn); }
.not_reproduced .verdict { color: var(--bad); } .not_enough_data .verdict { color: var(--quiet); }
footer { margin-top: 3rem; color: var(--quiet); font-size: .85rem; }
@media print { main { max-width: none; padding: 0; } h2 { break-after: avoid; } figure, .claim { break-inside: avoid; } }
"""


def page(report: Report, pictures: dict[str, bytes]) -> str:
    """The page; `pictures` are the figures' SVGs by name."""
    tables = [artifact for artifact in report.artifacts if isinstance(artifact, Table)]
    figures = [artifact for artifact in report.artifacts if isinstance(artifact, Figure)]
    experiment = report.experiment
    body = [_summary(report)]
    if tables:
        body.append("<h2>Tables</h2>" + "".join(map(_table, tables)))
    if figures:
        body.append("<h2>Figures</h2>" + "".join(_figure(figure, pictures[figure.name]) for figure in figures))
    if report.claims:
        body.append("<h2>Claims</h2>" + "".join(_claim(verdict) for verdict in report.claims))
    known = list(dict.fromkeys(found.text for found in discrepancies(experiment, None)))
    if known:
        items = "".join(f"<li>{escape(text)}</li>" for text in known)
        body.append(
            "<h2>Known contradictions of the publication</h2><p class=caption>Where the paper contradicts itself or its "
            f"released code.</p><ul class=notes>{items}</ul>"
        )
    body.append("<h2>Runs</h2>" + _table(runs_table(report.results), heading=False))
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(experiment.title)}</title>\n<style>{CSS}</style>\n</head>\n<body>\n<main>\n"
        + "\n".join(body)
        + "\n<footer>Rebuilt by plat from its store alone; hover over a number for its interval and the ids of its runs."
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
        text += f"<p class=missing>Missing: {escape(told)}. Cells that need them are blank or say how many seeds they have.</p>"
    if any(is_stand_in(run) for run in runs):
        text += (
            f"<p>Models that really ran: {escape(model_really(runs))}. These are small stand-ins trained from scratch in the "
            "place of the paper’s models: compare signs and orders with the paper, not levels.</p>"
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
    return f"<td{_classes([*classes, cell.tone])}{title}>{escape(cell.text)}{mark}</td>"


def _classes(names: list[str]) -> str:
    joined = " ".join(filter(None, names))
    return f' class="{joined}"' if joined else ""


def _figure(figure: Figure, svg: bytes) -> str:
    caption = f"<figcaption><b>{escape(figure.title)}.</b> {escape(figure.caption)}</figcaption>"
    return f"<figure>{style.inline(figure, svg)}{caption}</figure>"


def _claim(verdict) -> str:
    runs = f"{len(verdict.run_ids)} runs"
    title = escape(" ".join(verdict.run_ids), quote=True)
    return (
        f'<div class="claim {verdict.status}"><span class="verdict">{verdict.status.replace("_", " ")}</span> — '
        f'{escape(verdict.says or verdict.id)}<br><span class="caption" title="{title}">{escape(verdict.detail)} ({runs})</span></div>'
    )
