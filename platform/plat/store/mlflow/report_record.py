"""Build the tags of a report in its file's MLflow run, and the descriptions of that run and of its MLflow experiment.

The run's description is the report's summary, then the file's title. The experiment's has a part for each file with a
report. Both depend on the tags of runs only, so that equal stores have equal descriptions. Text of the user below the
last line of the experiment's description stays.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from plat.store.mlflow.run_tags import TAG_LENGTH
from plat.units import counted

CLAIMS = "plat.claim."  # prefix of a report's tags in the file's run, replaced with each report
REPORT = "plat.report"  # tag with the newest report's summary in Markdown: `- ` lines of verdicts, then paragraphs
NOTE = "mlflow.note.content"  # the tag that MLflow shows as the description
END = "*Above: written by `plat report`, anew each time. Below: yours.*"
VERDICT = re.compile(r"^- \*\*(.+?)\*\* ", re.MULTILINE)
FEWER = (1000, 20, 8, 4, 2, 1, 0)  # verdicts shown per file: the first number that fits


@dataclass(frozen=True)
class ReportRecord:
    """The findings of a report: metrics as (name, step) -> value, tags (`plat.claim.*`), and its summary (`REPORT`)."""

    values: Mapping[tuple[str, int], float] = field(default_factory=dict)
    tags: Mapping[str, str] = field(default_factory=dict)
    summary: str = ""


PICTURE = "forest.svg"  # of the report's files: the numbers behind the verdicts


@dataclass(frozen=True)
class LoggedReport:
    """A report as a backend writes it into a file's MLflow run: files by name, metrics by name and step, and tags."""

    files: Mapping[str, Path]
    values: Mapping[tuple[str, int], float]
    tags: Mapping[str, str]


def report_tags(record: ReportRecord, about: str, run: str = "") -> dict[str, str]:
    """Return the tags of a file's run after a report.

    about  the description of the run without a report
    run    the MLflow id of the run if the report has PICTURE, which the description then shows
    """
    if not record.summary:
        return {**record.tags, NOTE: about}
    picture = f"\n\n![forest plot](get-artifact?path=report%2F{PICTURE}&run_uuid={run})" if run else ""
    verdicts, blank, facts = record.summary.rpartition("\n\n")
    summary = verdicts + picture + blank + facts
    own = next(iter(_fitting([summary], TAG_LENGTH)), "")
    above = next(iter(_fitting([summary], TAG_LENGTH - len(about) - 2)), "")
    return {**record.tags, REPORT: own, NOTE: "\n\n".join(filter(None, [above, about]))}


def stale_report_tags(stored: Mapping[str, str], wanted: Mapping[str, str]) -> list[str]:
    """Return the names of the stored tags of an earlier report that the newest report does not have."""
    return [key for key in stored if (key.startswith(CLAIMS) or key == REPORT) and key not in wanted]


def without_report_note(tags: Mapping[str, str], stored: Mapping[str, str]) -> dict[str, str]:
    """Return a file's `tags`; leave out the description if the stored run has a report, whose description must stay."""
    return {key: value for key, value in tags.items() if key != NOTE or REPORT not in stored}


def experiment_note(runs: Sequence[Mapping[str, str]], present: str) -> str:
    """Return the description of an MLflow experiment from the tags of its files' runs and its present description.

    The first line counts the verdicts of each kind: MLflow's page shows only that line until it is unfolded. Text below
    `END`, or all text without that line, is the user's and stays. Returns `present` if no report fits.
    """
    reported = [run for run in runs if run.get(REPORT)]
    reported.sort(key=lambda run: (not VERDICT.search(run[REPORT]), run.get("plat.file", "")))  # with verdicts first
    before, end, after = present.partition(END)
    users = (after if end else before).strip()
    tail = "\n\n".join(filter(None, ["---", END, users]))
    heads = [f"**{run.get('plat.title', '')}** (`{run.get('plat.file', '')}`)\n\n" for run in reported]
    files = [run.get("plat.file", "") for run in reported]
    # a report under overrides (`table4@scale-smoke-1a2b`) judges the claims of the file once more
    own = [run for run, file in zip(reported, files, strict=True) if file.partition("@")[0] not in {*files} - {file}]
    counts = _counts([run[REPORT] for run in own])
    room = TAG_LENGTH - len(counts) - len(tail) - 4
    parts = _fitting([head + run[REPORT] for head, run in zip(heads, reported, strict=True)], room)
    return "\n\n".join(filter(None, [counts, *parts, tail])) if parts else present


def _counts(reports: Iterable[str]) -> str:
    """Return a line such as `**Verdicts: 2 shown, 1 open**`, "" without verdicts."""
    words = Counter(word for report in reports for word in VERDICT.findall(report))
    return f"**Verdicts: {', '.join(f'{words[word]} {word}' for word in sorted(words))}**" if words else ""


def _fitting(parts: Sequence[str], room: int) -> list[str]:
    """Return the parts shortened to `room` characters in total.

    Leaves out verdicts of each part first, then the last parts, and adds lines that count them; [] if nothing fits."""
    short = list(parts)
    for most in FEWER:
        short = [_with_verdicts(part, most) for part in parts]
        if len("\n\n".join(short)) <= room:
            return short
    for shown in range(len(short) - 1, 0, -1):
        rest = f"And {counted(len(short) - shown, 'more report')}: see the runs with the tag `plat.file`."
        if len("\n\n".join([*short[:shown], rest])) <= room:
            return [*short[:shown], rest]
    return []


def _with_verdicts(part: str, most: int) -> str:
    """Return a part with at most `most` of its verdicts, and a line that counts the others."""
    lines = part.split("\n")
    verdicts = [number for number, line in enumerate(lines) if line.startswith("- ")]
    if len(verdicts) <= most:
        return part
    last = verdicts[-1]
    dropped = set(verdicts[most:])
    more = counted(len(dropped), "more claim" if most else "claim")
    lines[last] = f"- and {more}" if most else f"- {more}"
    return "\n".join(line for number, line in enumerate(lines) if number == last or number not in dropped)
