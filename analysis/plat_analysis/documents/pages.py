"""The pages of the documentation, with the regions of results as the bundle has them."""

from __future__ import annotations

from itertools import zip_longest
from pathlib import Path

from plat.errors import SpecError
from plat_analysis.documents.bundles import Bundles
from plat_analysis.documents.pictures import Pictures
from plat_analysis.documents.regions import rewritten
from plat_analysis.documents.sources import content
from plat_analysis.documents.stray import stray_numbers
from plat_analysis.documents.verdicts import PLACE, verdicts_text

# Pages that tell results: here a measured number may stand in a region only.
TOLD = (
    "quickstart",
    "reproduction",
    "results",
    "findings",
    "searches",
    "base-models",
    "paper-scale",
    "tasks",
    "controls",
)
AGAIN = "`make results` writes it again"
RESULTS = ("README.md", *(f"docs/{name}.md" for name in TOLD))


def write(root: Path) -> list[str]:
    """Write every region of every page anew, the pictures and the verdicts; what changed, one sentence each."""
    bundles, pictures, changed = Bundles(root), Pictures(root, draw=True), []
    for page in pages(root):
        text = (root / page).read_text(encoding="utf-8")
        new = _page(page, text, bundles, pictures)
        if new != text:
            (root / page).write_text(new, encoding="utf-8")
            changed.append(f"{page} written")
    verdicts = verdicts_text(bundles)
    if _read(root / PLACE) != verdicts:
        (root / PLACE).write_text(verdicts, encoding="utf-8")
        changed.append(f"{PLACE} written")
    return changed


def problems(root: Path, bundles: Bundles | None = None) -> list[str]:
    """What is wrong with the numbers of the pages, one line each; nothing is written.

    bundles  where the numbers are, those of this root unless given; a second check of the same ones is fast
    """
    bundles, pictures, lines = bundles or Bundles(root), Pictures(root, draw=False), []
    for page in pages(root):
        text = (root / page).read_text(encoding="utf-8")
        new = _page(page, text, bundles, pictures)
        lines += [f"{page}:{line}: this is not what docs/results says; {AGAIN}" for line in _changed(text, new)]
        if str(page) in RESULTS:
            lines += stray_numbers(page, text)
    if _read(bundles.root / PLACE) != verdicts_text(bundles):
        lines.append(f"{PLACE}: these are not the verdicts of the bundles; {AGAIN}")
    return lines


def _read(path: Path) -> str:
    """The content of a file; "" where it is not there."""
    return path.read_text(encoding="utf-8") if path.is_file() else ""


def _changed(text: str, new: str) -> list[int]:
    """The numbers of the lines that differ; where lines are missing or too many, of the first one only."""
    old_lines, new_lines = text.splitlines(), new.splitlines()
    pairs = zip_longest(old_lines, new_lines)
    numbers = [number for number, (old, new) in enumerate(pairs, start=1) if old != new]
    if not numbers and text != new:  # they differ in how their last line ends
        return [len(old_lines)]
    return numbers if len(old_lines) == len(new_lines) else numbers[:1]


def pages(root: Path) -> list[Path]:
    """README.md and every page of docs/, relative to the root."""
    return [Path("README.md"), *sorted(path.relative_to(root) for path in (root / "docs").glob("*.md"))]


def _page(page: Path, text: str, bundles: Bundles, pictures: Pictures) -> str:
    def content_of(what: str, place: str) -> str:
        try:
            return content(what, bundles.report, lambda name, figure: pictures.markdown(name, figure, page))
        except SpecError as error:
            error.where = f"{place} ({error.where})" if error.where else place
            raise

    return rewritten(page, text, content_of)
