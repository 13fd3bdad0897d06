"""Print `plat claims`: for one file every reason, for several files a list with one error over all verdicts."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from plat.cli.screen.table import fitted, terminal_width
from plat.errors import SpecError
from plat.units import counted

if TYPE_CHECKING:
    from plat_analysis.claims.reference import PaperClaim
    from plat_analysis.report.verdicts import Judged, VerdictLine

FOLDER = Path("experiments")
WIDEST = 80  # columns of the list
INDENT = 17  # columns before the text of a verdict


def files_with_claims(folder: Path) -> list[Path]:
    """Return the experiment files with claims below a folder, by path, without search files and papers.

    A file of imported runs whose recordings are not here is left out.

    A file that cannot be read is included, so that loading it reports the mistake.
    """
    return [path for path in sorted(folder.rglob("*.yaml")) if path.parent.name != "papers" and _claims(path)]


def is_folder(path: Path) -> bool:
    """Return True for a folder other than the directory of a run, False for anything else."""
    return path.is_dir() and not (path / "meta.json").exists()


def _claims(path: Path) -> bool:
    from plat.spec.reading.experiment_file import is_search
    from plat.spec.reading.yaml_reader import read

    try:
        data = read(path).data
    except SpecError:
        return True
    return isinstance(data, dict) and bool(data.get("claims")) and not is_search(path) and _has_runs(data, path.parent)


def _has_runs(data: dict[str, Any], folder: Path) -> bool:
    """Return False for a file of recorded runs if there is no folder of their recordings."""
    base = data.get("base")
    if not isinstance(base, dict) or base.get("trainer") != "recorded":
        return True
    return (folder / str(base.get("recorded.folder", "."))).is_dir()


def in_full(judged: Judged) -> str:
    """Return every verdict of a file with all of its reasons, as lines that fit the terminal."""
    evidence = judged.experiment.evidence_in_words
    lines = [f"evidence: {evidence}"] if evidence and judged.verdicts else []
    for verdict in judged.verdicts:
        lines.append(f"{verdict.word:{INDENT}} {verdict.id}: {verdict.says}")
        lines += [f"{'':{INDENT}} {line}" for line in verdict.lines]
        if reference := judged.reference.get(verdict.id):
            lines.append(f"{'reference':>{INDENT}} {reference}")
    return fitted("\n".join(lines))


def as_list(lines: Sequence[VerdictLine], claimed: Sequence[PaperClaim] = ()) -> str:
    """Return every claim of several files (verdict, file, sentence, one line of reasons), then the verdict over all.

    claimed  the paper's claims: each verdict is listed under the sentence that it tests, the others come last
    """
    from plat_analysis.report.verdicts import over_all, tally

    width = min(terminal_width() or WIDEST, WIDEST)
    text = _under_sentences(lines, claimed, width) if claimed else _entries(lines, width)
    counts = ", ".join(f"{count} {word}" for count, word, _ in tally(lines))
    text += ["", *_wrapped(f"{counted(len(lines), 'claim')}: {counts}.", width)]
    if sentence := over_all(lines):
        text += _wrapped(sentence, width)
    return "\n".join([*text, "`plat claims FILE` shows every row, `--json` the ids of the runs."])


def _under_sentences(lines: Sequence[VerdictLine], claimed: Sequence[PaperClaim], width: int) -> list[str]:
    """Return the paper's claims, the main one first, each with its verdicts.

    A verdict that tests several claims is explained under the first.
    """
    from plat_analysis.claims.reference import by_claim

    groups, others = by_claim(claimed, {(line.experiment.name, line.verdict.id): line for line in lines})
    groups.sort(key=lambda group: not any(line.is_main for line in group[1]))
    text: list[str] = []
    explained: set[int] = set()
    for claim, own in groups:
        printed = f"; printed: {claim.published}" if claim.published else ""
        text += [*_wrapped(f"## {claim.says} ({claim.source}{printed})", width)]
        text += _entries([line for line in own if id(line) not in explained], width)
        for line in own:
            if id(line) in explained:
                text.append(f"{line.verdict.word:{INDENT}}{line.artifact}: {line.verdict.id}, see above")
        explained |= set(map(id, own))
        if claim.open or not own:
            text += _indented("open", [claim.open or "None of the files here tests it."], width)
        text.append("")
    heading = ["## Claims of these files that test no claim of a paper"] if others else []
    return [*(text if others else text[:-1]), *heading, *_entries(others, width)]


def _entries(lines: Sequence[VerdictLine], width: int) -> list[str]:
    return [part for line in lines for part in _entry(line, width)]


def _entry(line: VerdictLine, width: int) -> list[str]:
    experiment, verdict = line.experiment, line.verdict
    runs = f"{counted(len(verdict.run_ids), 'run')} of {experiment.name}"
    why = "; ".join(filter(None, [line.verdict.reason, line.over_all]))
    text = [f"{line.artifact}: {verdict.id}", verdict.says, f"{why} ({runs})"]
    text += [f"reference: {line.reference}"] if line.reference else []
    return _indented(line.verdict.word, text, width)


def _indented(word: str, text: Sequence[str], width: int) -> list[str]:
    """Return a word with paragraphs of text beside it."""
    parts = [part for paragraph in text if paragraph for part in _wrapped(paragraph, width - INDENT)]
    return [f"{head:{INDENT}}{part}" for head, part in zip([word, *[""] * len(parts)], parts, strict=False)]


def _wrapped(text: str, width: int) -> list[str]:
    return fitted(text, width).split("\n")
