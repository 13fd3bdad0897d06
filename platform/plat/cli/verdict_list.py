"""What `plat claims` prints: of one file every reason, of several a list with one error over all of it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from plat.cli.table import fitted, terminal_width
from plat.errors import SpecError
from plat.units import counted

if TYPE_CHECKING:
    from plat_analysis.report.verdicts import Judged, VerdictLine

FOLDER = Path("experiments")
WIDEST = 80  # columns of the list
INDENT = 17  # columns before the text of a verdict


def files_with_claims(folder: Path) -> list[Path]:
    """The experiment files below a folder that claim something, by path; search files and papers are no such files.

    A file that cannot be read is among them, so that whoever loads it names the mistake.
    """
    return [path for path in sorted(folder.rglob("*.yaml")) if path.parent.name != "papers" and _claims(path)]


def is_folder(path: Path) -> bool:
    """Whether a path is a folder with files, and not the directory of a run."""
    return path.is_dir() and not (path / "meta.json").exists()


def _claims(path: Path) -> bool:
    from plat.search.file import is_search
    from plat.spec.yaml_reader import read

    try:
        data = read(path).data
    except SpecError:
        return True
    return isinstance(data, dict) and bool(data.get("claims")) and not is_search(path)


def in_full(judged: Judged) -> str:
    """Every verdict of a file with all of its reasons."""
    lines = []
    for verdict in judged.verdicts:
        lines.append(f"{verdict.status.replace('_', ' '):15} {verdict.id}: {verdict.says}")
        lines += [f"{'':15} {line}" for line in verdict.lines]
        if reference := judged.reference.get(verdict.id):
            lines.append(f"{'reference':>15} {reference}")
    return fitted("\n".join(lines))


def as_list(lines: Sequence[VerdictLine]) -> str:
    """Every claim of several files: verdict, file, sentence and one line why; then what stands together."""
    from plat_analysis.report.verdicts import over_all, tally

    width = min(terminal_width() or WIDEST, WIDEST)
    text = [part for line in lines for part in _entry(line, width)]
    counts = ", ".join(f"{count} {word}" for count, word, _ in tally(lines))
    text += ["", *_wrapped(f"{counted(len(lines), 'claim')}: {counts}.", width)]
    if sentence := over_all(lines):
        text += _wrapped(sentence, width)
    return "\n".join([*text, "`plat claims FILE` shows every row, `--json` the ids of the runs."])


def _entry(line: VerdictLine, width: int) -> list[str]:
    experiment, verdict = line.experiment, line.verdict
    runs = f"{counted(len(verdict.run_ids), 'run')} of {experiment.name}"
    why = "; ".join(filter(None, [line.why, line.over_all]))
    text = [f"{line.artifact}: {verdict.id}", verdict.says, f"{why} ({runs})"]
    text += [f"reference: {line.reference}"] if line.reference else []
    parts = [part for paragraph in text if paragraph for part in _wrapped(paragraph, width - INDENT)]
    return [f"{head:{INDENT}}{part}" for head, part in zip([line.word, *[""] * len(parts)], parts, strict=False)]


def _wrapped(text: str, width: int) -> list[str]:
    return fitted(text, width).split("\n")


def as_json(lines: Sequence[VerdictLine]) -> list[dict[str, Any]]:
    """The verdicts for a program, with the file of each, whether it stands over all, and the reference."""
    return [
        {
            **line.verdict.as_dict(),
            "experiment": line.experiment.name,
            "source": line.experiment.source,
            "stands_over_all": line.holds,
            "reference": line.reference or None,
        }
        for line in lines
    ]
