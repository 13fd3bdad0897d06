"""Content of a page's regions: a part of an experiment's report, from a bundle, or the output of a command.

    EXPERIMENT table NAME [plain] [lines=peak,final]   a table of the report; plain: without caption and notes;
                                                       lines: only those with this second cell
    EXPERIMENT figure NAME                             a figure of the report; drawn into docs/images/
    EXPERIMENT value KEY [digits=1] [signed]           a key number of the report
    EXPERIMENT claims                                  the verdicts
    EXPERIMENT verdict ID                              the word of one verdict, with the counts of its rows
    EXPERIMENT together EXPERIMENT...                  which verdicts hold if one error rate covers all these files
    EXPERIMENT runs                                    number of runs, seeds and builds, and their trainers
    EXPERIMENT command                                 the command that makes these runs
    EXPERIMENT count PROPERTY CONDITION [alone]        number of runs with it: `6 of 10` (see `counts`)
    EXPERIMENT share PROPERTY CONDITION                the exact interval of that share: `26 to 88 %`
    EXPERIMENT fisher PROPERTY CONDITION CONDITION     Fisher's exact test of two shares: `p .011`
    EXPERIMENT setting KEY                             an option that all runs share: `.25`
    EXPERIMENT mean METRIC CONDITION [last=N]          a metric's mean; see `metric_numbers` for this and the next 3
    EXPERIMENT difference METRIC CONDITION CONDITION [last=N]    paired by build and seed, with its interval
    EXPERIMENT rise METRIC CONDITION [show=fallen]     end minus start within runs, or how many fell
    EXPERIMENT beyond METRIC CONDITION above=LIMIT     the share of measurements above a limit: `79 %`
    EXPERIMENT record TABLE LABELS [interval=yes]      one number of a table
    EXPERIMENT percent TABLE LABELS LABELS             by how many percent the second number is below the first
    EXPERIMENT change CLAIM ROW                        the change of a row that a claim judged
    python ...                                         output of this command: tables in Markdown, other text as code

LABELS are those of a line in the table's CSV file: `row=GRPO,column=sokoban,quantity=peak`. Put words with spaces in
quotation marks. Further words `matrix.AXIS=VALUES` choose a part of the runs.
"""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, TypeVar

from plat.errors import SpecError
from plat.suggest import suggest
from plat_analysis.artifact import Figure, Row, Table, interval, number
from plat_analysis.claims.engine import Verdict
from plat_analysis.data.results import spell
from plat_analysis.report import render
from plat_analysis.report.report import Report
from plat_analysis.report.verdicts import summary
from plat_analysis.statistics.intervals import Estimate
from tools.documents import counts, metric_numbers
from tools.documents.conditions import check_count, labels, named, options, whole

Artifact = TypeVar("Artifact", Table, Figure)

OTHERS = ("figure", "together")  # kinds that need more than one report and the words
CHANGE = re.compile(r"(?P<row>.*?) ?(?P<change>[+−]?\d[\d.]* \[[^\]]+\])")
COUNTED = re.compile(r" in \d+ of \d+$")  # end of a verdict's line that counts its rows
PART = "matrix."  # prefix of the words that choose a part of the runs


def content(what: str, report_of: Callable[[str, Sequence[str]], Report], draw: Callable[[str, Figure], str]) -> str:
    """Return the Markdown for `what`, e.g. `table4 claims`. Raises SpecError if it names no result or a command fails.

    report_of  (name of an experiment, overrides of its matrix) -> its report
    draw       (name of an experiment, figure) -> the Markdown of the picture
    """
    try:
        name, kind, *words = shlex.split(what)
    except ValueError as error:
        raise SpecError(f"`{what}` names no result", fix="write EXPERIMENT KIND, e.g. `table4 claims`") from error
    if name == "python":
        return _printed([kind, *words])
    if kind not in KINDS and kind not in OTHERS:
        raise SpecError(f"there is no kind of result {kind!r}", fix=suggest(kind, [*KINDS, *OTHERS], "kinds"))
    part = [word for word in words if word.startswith(PART)]
    words = [word for word in words if not word.startswith(PART)]
    if kind == "together":
        return summary([verdict for each in (name, *words) for verdict in report_of(each, part).claims])
    report = report_of(name, part)
    if kind == "figure":
        figure = _named(report, words, Figure)
        slugs = [re.sub(r"[^\w.]+", "-", word.removeprefix(PART)).strip("-") for word in part]  # `seed-0-1`
        return draw("-".join([name, *slugs]), figure)
    return KINDS[kind](report, words)


def _printed(words: Sequence[str]) -> str:
    """Return the output of Python with these arguments. Raises SpecError if it fails."""
    done = subprocess.run([sys.executable, *words], capture_output=True, text=True)
    if done.returncode:
        command = shlex.join(["python", *words])
        raise SpecError(f"`{command}` failed: {done.stderr.strip()[-500:]}", fix="fix the command")
    printed = done.stdout.strip()
    return printed if printed.startswith("|") else f"```text\n{printed}\n```"


def _table(report: Report, words: Sequence[str]) -> str:
    table = _named(report, words, Table)
    given = options(words[1:], {"plain": "", "lines": ""})
    if given["lines"]:
        table = replace(table, rows=_chosen(table, given["lines"].split(",")))
    if given["plain"]:
        table = replace(table, caption="", fine_print="", notes=[])
    return render.markdown(table).partition("\n")[2]  # without the heading: the page has its own


def _chosen(table: Table, lines: Sequence[str]) -> list[Row]:
    """Return the rows whose second cell is in `lines`, each with its row's name. SpecError if there is none."""
    rows, stub = [], None
    for row in table.rows:
        stub = row.cells[0] if row.rule or stub is None else stub
        if row.cells[1].text in lines:
            rows.append(replace(row, cells=(stub, *row.cells[1:])))
    if not rows:
        kinds = list(dict.fromkeys(row.cells[1].text for row in table.rows))
        raise SpecError(f"the table {table.name!r} has no line {lines[0]!r}", fix=suggest(lines[0], kinds, "lines"))
    return rows


def _value(report: Report, words: Sequence[str]) -> str:
    value, given = named(report.values, words, "value"), options(words[1:], {"signed": "", "digits": "1"})
    return number(value, whole(given, "digits"), bool(given["signed"]))


def _claims(report: Report, words: Sequence[str]) -> str:
    lines = []
    for verdict in report.claims:
        lines.append(f"- **{verdict.status.replace('_', ' ')}**: {verdict.says} (`{verdict.id}`)")
        lines += [f"  - {line}" for line in verdict.lines]
    if not lines:
        raise SpecError(f"{report.experiment.name} claims nothing", fix="remove the region")
    return "\n".join(lines)


def _verdict(report: Report, words: Sequence[str]) -> str:
    """Return a verdict with its counts: `partial (above zero in 3 of 9, not shown either way in 6 of 9)`."""
    verdict = _claim(report, words)
    counts = [line for line in verdict.lines if COUNTED.search(line)]
    return verdict.status.replace("_", " ") + (f" ({', '.join(counts)})" if counts else "")


def _change(report: Report, words: Sequence[str]) -> str:
    """Return the change of a row that a claim judged, with its interval: `+2.5 [+1.4, +3.6]`."""
    rows: dict[str, str] = {}
    for line in _claim(report, words).lines:
        # a verdict about one kind of row has the kind before the row: `without enough data: GRPO +1.0 [...]`
        match = CHANGE.match(line.rpartition(": ")[2])
        if match:
            rows[match["row"]] = match["change"]
    row = words[1] if len(words) == 2 else ""
    if row not in rows:
        raise SpecError(f"the claim {words[0]!r} judges no row {row!r}", fix=suggest(row, rows, "rows"))
    return rows[row]


def _record(report: Report, words: Sequence[str]) -> str:
    """Return `26.2`; `+9.7 [+7.6, +11.8]` with `signed=yes interval=yes`."""
    line = _line(report, words[:2])
    given = options(words[2:], {"digits": "1", "signed": "no", "interval": "no"})
    signed, digits = given["signed"] == "yes", whole(given, "digits")
    shown = number(float(line["value"]), digits, signed)
    if given["interval"] == "yes":
        shown += f" {interval(Estimate(line['value'], line.get('low'), line.get('high')), digits, signed)}"
    return shown


def _percent(report: Report, words: Sequence[str]) -> str:
    """Return by how many percent the second number is below (`−`) or above (`+`) the first: `−17.0 %`."""
    check_count(words, 3, "it names no two numbers", "percent TABLE LABELS LABELS")
    before, after = (float(_line(report, [words[0], text])["value"]) for text in words[1:])
    return f"{number(100 * (after / before - 1), 1, signed=True)} %"


def _line(report: Report, words: Sequence[str]) -> dict[str, Any]:
    """Return the tidy line of a table that has these labels. Raises SpecError unless there is exactly one."""
    check_count(words, 2, "it names no table and labels", "record TABLE NAME=VALUE,NAME=VALUE")
    wanted = labels(words[1])
    lines = [
        line
        for line in _named(report, words, Table).records
        if all(name in line and spell(line[name]) == value for name, value in wanted.items())
    ]
    if len(lines) != 1:
        fix = "give the labels that choose one of them"
        raise SpecError(f"{len(lines)} numbers of {words[0]!r} have {words[1]}", fix=fix)
    return lines[0]


def _claim(report: Report, words: Sequence[str]) -> Verdict:
    return named({verdict.id: verdict for verdict in report.claims}, words, "claim")


def _runs(report: Report, words: Sequence[str]) -> str:
    """Return `720 runs (5 seeds, 2 builds of each base model; embedded 3.0)`, with counts of missing runs by reason."""
    runs = report.results.runs
    done = [run for run in runs if not run.missing]
    seeds, builds = len({spell(run.seed) for run in runs}), len({spell(run.build) for run in runs})
    parts = [f"{seeds} seed{'s' * (seeds != 1)}"]
    parts += [f"{builds} builds of each base model"] if builds > 1 else []
    trainers = sorted({trainer for run in done if (trainer := run.tag("plat.trainer"))})
    missing = Counter(run.missing for run in runs if run.missing)
    absent = "".join(f", {count} more {reason}" for reason, count in sorted(missing.items()))
    return f"{len(done)} runs{absent} ({', '.join(parts)}; trained with {', '.join(trainers)})"


def _command(report: Report, words: Sequence[str]) -> str:
    return f"`{shlex.join(['plat', 'sweep', str(report.experiment.path), *report.experiment.overrides])}`"


def _named(report: Report, words: Sequence[str], kind: type[Artifact]) -> Artifact:
    """Return the artifact of this kind that the first word names. Raises SpecError if there is none."""
    artifacts = {artifact.name: artifact for artifact in report.artifacts if isinstance(artifact, kind)}
    return named(artifacts, words, kind.__name__.lower())


KINDS: dict[str, Callable[[Report, Sequence[str]], str]] = {
    "table": _table,
    "value": _value,
    "claims": _claims,
    "verdict": _verdict,
    "runs": _runs,
    "command": _command,
    "count": counts.count,
    "share": counts.share,
    "fisher": counts.fisher,
    "setting": counts.setting,
    "mean": metric_numbers.mean,
    "difference": metric_numbers.difference,
    "rise": metric_numbers.rise,
    "beyond": metric_numbers.beyond,
    "record": _record,
    "percent": _percent,
    "change": _change,
}
