"""The pages of the documentation, with the regions of results as the bundle has them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from plat.errors import SpecError
from plat_analysis.artifact import Figure
from plat_analysis.documents.bundles import Bundles
from plat_analysis.documents.regions import rewritten, stray_numbers
from plat_analysis.documents.sources import content
from plat_analysis.figures import style

IMAGES = Path("docs/images")
# Pages that tell results: here a measured number may stand in a region only.
RESULTS = ("README.md", "docs/results.md", "docs/quickstart.md", "docs/findings.md", "docs/searches.md")


def write(root: Path) -> list[str]:
    """Write every region of every page anew, and the pictures; the pages that changed, one sentence each."""
    bundles, changed = Bundles(root), []
    for page in pages(root):
        text = (root / page).read_text(encoding="utf-8")
        new = _page(root, page, text, bundles, _draw)
        if new != text:
            (root / page).write_text(new, encoding="utf-8")
            changed.append(f"{page} written")
    return changed


def problems(root: Path) -> list[str]:
    """What is wrong with the numbers of the pages, one line each; nothing is written."""
    bundles, lines = Bundles(root), []
    for page in pages(root):
        text = (root / page).read_text(encoding="utf-8")
        new = _page(root, page, text, bundles, _must_exist)
        for index, (old_line, new_line) in enumerate(zip(text.splitlines(), new.splitlines(), strict=False), start=1):
            if old_line != new_line:
                lines.append(f"{page}:{index}: this is not what docs/results says; `make results` writes it again")
                break
        else:
            if text != new:
                lines.append(
                    f"{page}: its results end elsewhere than docs/results says; `make results` writes it again"
                )
        if str(page) in RESULTS:
            lines += [
                f"{stray} looks measured and stands in no region of results" for stray in stray_numbers(page, text)
            ]
    return lines


def pages(root: Path) -> list[Path]:
    """README.md and every page of docs/, relative to the root."""
    return [Path("README.md"), *sorted(path.relative_to(root) for path in (root / "docs").glob("*.md"))]


def _page(root: Path, page: Path, text: str, bundles: Bundles, draw: Callable[[Path, Figure], None]) -> str:
    def picture(experiment: str, figure: Figure) -> str:
        path = IMAGES / f"{experiment}-{figure.name}.png"
        draw(root / path, figure)
        return path.relative_to(page.parent).as_posix()

    def content_of(what: str, place: str) -> str:
        try:
            return content(what, bundles.report, picture)
        except SpecError as error:
            error.where = f"{place} ({error.where})" if error.where else place
            raise

    return rewritten(page, text, content_of)


def _draw(path: Path, figure: Figure) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(style.images(figure)[1])


def _must_exist(path: Path, figure: Figure) -> None:
    if not path.is_file():
        raise SpecError(
            f"the figure {figure.name!r} has not been drawn", where=str(path), mend="`make results` draws it"
        )
