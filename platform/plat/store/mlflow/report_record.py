"""What a report leaves in MLflow, in the own run of its experiment file, and the two descriptions that begin with it.

The run's description is what the report says, then the file's title. The MLflow experiment's description has a part for
each file with a report in it. Both are made from the tags of runs alone, so that equal stores have equal descriptions.
What a user writes below the last line of the experiment's description stays.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from plat.store.mlflow.spelling import TAG_LENGTH
from plat.units import counted

CLAIMS = "claim."  # tags of a file's own run that begin so are a report's, and replaced with it
REPORT = "plat.report"  # what the newest report says, in Markdown: `- ` lines of verdicts, then plain paragraphs
NOTE = "mlflow.note.content"  # the tag that MLflow shows as the description
END = "*Above: written by `plat report`, anew each time. Below: yours.*"
VERDICT = re.compile(r"^- \*\*(.+?)\*\* ", re.MULTILINE)
FEWER = (1000, 20, 8, 4, 2, 1, 0)  # how many verdicts of a file are shown, the first number that fits


@dataclass(frozen=True)
class ReportRecord:
    """What a report found, beside its files: metrics by name, tags (`claim.*`), and its summary (see `REPORT`)."""

    values: Mapping[str, float] = field(default_factory=dict)
    tags: Mapping[str, str] = field(default_factory=dict)
    summary: str = ""


@dataclass(frozen=True)
class LoggedReport:
    """A report as a backend writes it into a file's own run: its files by name, metrics and tags."""

    files: Mapping[str, Path]
    values: Mapping[str, float]
    tags: Mapping[str, str]


def report_tags(record: ReportRecord, about: str) -> dict[str, str]:
    """The tags of a file's own run after a report; `about` is the description that the run has without one."""
    if not record.summary:
        return {**record.tags, NOTE: about}
    own = next(iter(_fitting([record.summary], TAG_LENGTH)), "")
    above = next(iter(_fitting([record.summary], TAG_LENGTH - len(about) - 2)), "")
    return {**record.tags, REPORT: own, NOTE: "\n\n".join(filter(None, [above, about]))}


def stale_report_tags(stored: Mapping[str, str], wanted: Mapping[str, str]) -> list[str]:
    """The tags of an earlier report that the newest one does not have."""
    return [key for key in stored if (key.startswith(CLAIMS) or key == REPORT) and key not in wanted]


def without_report_note(tags: Mapping[str, str], stored: Mapping[str, str]) -> dict[str, str]:
    """A file's tags for its own run: an import leaves the description that a report has written."""
    return {key: value for key, value in tags.items() if key != NOTE or REPORT not in stored}


def experiment_note(runs: Sequence[Mapping[str, str]], present: str) -> str:
    """The description of an MLflow experiment from the tags of its files' own runs, and the one that is there now.

    MLflow's page shows its first line alone until it is unfolded, so that is how many verdicts there are of each kind.
    What stands below `END` is the user's; so is all of a description that has no such line.
    """
    reported = sorted((run for run in runs if run.get(REPORT)), key=_order)
    before, end, after = present.partition(END)
    users = (after if end else before).strip()
    tail = "\n\n".join(filter(None, ["---", END, users]))
    heads = [f"**{run.get('plat.title', '')}** (`{run.get('plat.file', '')}`)\n\n" for run in reported]
    counts = _counts([run[REPORT] for run in reported])
    room = TAG_LENGTH - len(counts) - len(tail) - 4
    parts = _fitting([head + run[REPORT] for head, run in zip(heads, reported, strict=True)], room)
    return "\n\n".join(filter(None, [counts, *parts, tail])) if parts else present


def _order(run: Mapping[str, str]) -> tuple[bool, str]:
    """Files that claim something first, then by name."""
    return not VERDICT.search(run[REPORT]), run.get("plat.file", "")


def _counts(reports: Iterable[str]) -> str:
    """`**Verdicts: 2 partial, 1 reproduced**`, "" where nothing is claimed."""
    words = Counter(word for report in reports for word in VERDICT.findall(report))
    return f"**Verdicts: {', '.join(f'{words[word]} {word}' for word in sorted(words))}**" if words else ""


def _fitting(parts: Sequence[str], room: int) -> list[str]:
    """The parts, with as many of the verdicts of each as there is room for; where even none are too many, the first
    parts, and how many there are more."""
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
    """A part with so many of its verdicts at most, and how many more there are."""
    lines = part.split("\n")
    verdicts = [number for number, line in enumerate(lines) if line.startswith("- ")]
    if len(verdicts) <= most:
        return part
    last = verdicts[-1]
    dropped = set(verdicts[most:])
    more = counted(len(dropped), "more claim" if most else "claim")
    lines[last] = f"- and {more}" if most else f"- {more}"
    return "\n".join(line for number, line in enumerate(lines) if number == last or number not in dropped)
