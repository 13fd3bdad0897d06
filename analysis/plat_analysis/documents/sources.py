"""What a region of a page may show: a part of the report of an experiment whose runs are in a bundle, or what a command
prints.

    EXPERIMENT table NAME [plain] [lines=peak,final]   a table of the report; plain: without caption and notes;
                                                       lines: only those whose second cell says so
    EXPERIMENT figure NAME                             a figure of the report; it is drawn into docs/images/
    EXPERIMENT value KEY [digits=1] [signed]           a key number of the report
    EXPERIMENT claims                                  the verdicts
    EXPERIMENT verdict ID                              the word of one verdict, with the counts of its rows
    EXPERIMENT together EXPERIMENT...                  which verdicts of these files stand with one error for all
    EXPERIMENT runs                                    how many runs are behind the numbers, and what made them
    EXPERIMENT command                                 the command that does these runs
    EXPERIMENT count PROPERTY CONDITION [alone]        how many runs have it: `6 of 10` (see `counts`)
    EXPERIMENT share PROPERTY CONDITION                the exact interval of that share: `26 to 88 %`
    EXPERIMENT fisher PROPERTY CONDITION CONDITION     Fisher's exact test of two shares: `p .011`
    EXPERIMENT setting KEY                             an option that all runs share: `.25`
    EXPERIMENT mean METRIC CONDITION [last=N]          a metric's mean (see `metrics`)
    EXPERIMENT difference METRIC CONDITION CONDITION [last=N] [show=p]    paired by build and seed, with its interval
    EXPERIMENT rise METRIC CONDITION [show=fallen]     end minus start within runs, or how many fell (see `courses`)
    EXPERIMENT beyond METRIC CONDITION above=LIMIT     the share of measurements above a limit: `79 %`
    EXPERIMENT record TABLE LABELS [interval=yes]      one number of a table (see `records`)
    EXPERIMENT percent TABLE LABELS LABELS             by how many percent one number is below another
    EXPERIMENT change CLAIM ROW                        the change of a row that a claim judged
    python ...                                         what this command prints: tables in Markdown, other text as code

A word with spaces is written in quotation marks. Words `matrix.AXIS=VALUES` behind these choose a part of the runs.
"""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TypeVar

from plat.errors import SpecError
from plat.suggest import mend
from plat_analysis.artifact import Figure, Row, Table, number
from plat_analysis.claims.together import summary
from plat_analysis.data.runs import spell
from plat_analysis.documents import claimed, counts, courses, metrics, records
from plat_analysis.report import render
from plat_analysis.report.report import Report

Artifact = TypeVar("Artifact", Table, Figure)


OTHERS = ("figure", "together")  # kinds that are no function of one report and the words alone
COUNTED = re.compile(r" in \d+ of \d+$")  # how a verdict's line ends that counts its rows
PART = "matrix."  # what the words begin with that choose a part of the runs


def content(what: str, report_of: Callable[[str, Sequence[str]], Report], draw: Callable[[str, Figure], str]) -> str:
    """The Markdown that stands for `what`; SpecError where it names nothing that there is.

    report_of  (name of an experiment, overrides of its matrix) -> its report
    draw       (name of an experiment, figure) -> the Markdown of the picture
    """
    try:
        name, kind, *words = shlex.split(what)
    except ValueError as error:
        raise SpecError(f"`{what}` names no result", mend="write EXPERIMENT KIND, e.g. `table4 claims`") from error
    if name == "python":
        return _printed([kind, *words])
    if kind not in KINDS and kind not in OTHERS:
        raise SpecError(f"there is no kind of result {kind!r}", mend=mend(kind, [*KINDS, *OTHERS], "kinds"))
    part = [word for word in words if word.startswith(PART)]
    words = [word for word in words if not word.startswith(PART)]
    if kind == "together":
        return summary([verdict for each in (name, *words) for verdict in report_of(each, part).claims])
    report = report_of(name, part)
    if kind == "figure":
        figure = _named(report, words, Figure)
        return draw("-".join([name, *map(_slug, part)]), figure)
    return KINDS[kind](report, words)


def _slug(override: str) -> str:
    """`matrix.seed=[0,1]` -> `seed-0-1`, as part of a file's name."""
    return re.sub(r"[^\w.]+", "-", override.removeprefix(PART)).strip("-")


def _printed(words: Sequence[str]) -> str:
    """What Python prints with these arguments; SpecError where it fails."""
    done = subprocess.run([sys.executable, *words], capture_output=True, text=True)
    if done.returncode:
        raise SpecError(
            f"`{shlex.join(['python', *words])}` failed: {done.stderr.strip()[-500:]}", mend="mend the command"
        )
    printed = done.stdout.strip()
    return printed if printed.startswith("|") else f"```text\n{printed}\n```"


def _table(report: Report, words: Sequence[str]) -> str:
    table = _named(report, words, Table)
    plain, lines = False, None
    for word in words[1:]:
        if word == "plain":
            plain = True
        elif word.startswith("lines="):
            lines = word.removeprefix("lines=").split(",")
        else:
            raise SpecError(f"a table has no option {word!r}", mend="one of: plain, lines=A,B")
    if lines is not None:
        table = replace(table, rows=_chosen(table, lines))
    if plain:
        table = replace(table, caption="", notes=[])
    return render.markdown(table).partition("\n")[2]  # the page has headings of its own


def _chosen(table: Table, lines: Sequence[str]) -> list[Row]:
    """The rows whose second cell is one of these, each with the name of its row; SpecError where there is none."""
    rows, stub = [], None
    for row in table.rows:
        stub = row.cells[0] if row.rule or stub is None else stub
        if row.cells[1].text in lines:
            rows.append(replace(row, cells=(stub, *row.cells[1:])))
    if not rows:
        kinds = list(dict.fromkeys(row.cells[1].text for row in table.rows))
        raise SpecError(f"the table {table.name!r} has no line {lines[0]!r}", mend=mend(lines[0], kinds, "lines"))
    return rows


def _value(report: Report, words: Sequence[str]) -> str:
    key = words[0] if words else ""
    if key not in report.values:
        raise SpecError(f"the report has no value {key!r}", mend=mend(key, report.values, "values"))
    digits, signed = 1, False
    for word in words[1:]:
        if word == "signed":
            signed = True
        elif word.startswith("digits=") and word.removeprefix("digits=").isdecimal():
            digits = int(word.removeprefix("digits="))
        else:
            raise SpecError(f"a value has no option {word!r}", mend="one of: signed, digits=N")
    return number(report.values[key], digits, signed)


def _claims(report: Report, words: Sequence[str]) -> str:
    lines = []
    for verdict in report.claims:
        lines.append(f"- **{verdict.status.replace('_', ' ')}**: {verdict.says} (`{verdict.id}`)")
        lines += [f"  - {line}" for line in verdict.lines]
    if not lines:
        raise SpecError(f"{report.experiment.name} claims nothing", mend="remove the region")
    return "\n".join(lines)


def _verdict(report: Report, words: Sequence[str]) -> str:
    """`partial (above zero in 3 of 9, not shown either way in 6 of 9)`"""
    verdicts = {verdict.id: verdict for verdict in report.claims}
    name = words[0] if words else ""
    if name not in verdicts:
        raise SpecError(f"the report has no claim {name!r}", mend=mend(name, verdicts, "claims"))
    counts = [line for line in verdicts[name].lines if COUNTED.search(line)]
    return verdicts[name].status.replace("_", " ") + (f" ({', '.join(counts)})" if counts else "")


def _runs(report: Report, words: Sequence[str]) -> str:
    """`720 runs (5 seeds, 2 builds of each base model; embedded 3.0)`, and what is missing."""
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
    """The artifact of this kind that the first word names."""
    artifacts = {artifact.name: artifact for artifact in report.artifacts if isinstance(artifact, kind)}
    name = words[0] if words else ""
    if name not in artifacts:
        called = kind.__name__.lower()
        raise SpecError(f"the report has no {called} {name!r}", mend=mend(name, artifacts, f"{called}s"))
    return artifacts[name]


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
    "mean": metrics.mean,
    "difference": metrics.difference,
    "rise": courses.rise,
    "beyond": courses.beyond,
    "record": records.record,
    "percent": records.percent,
    "change": claimed.change,
}
