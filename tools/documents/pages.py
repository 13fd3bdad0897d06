"""Write or check the pages of the documentation, with the results, pictures and verdicts that they show."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator
from hashlib import sha256
from itertools import zip_longest
from pathlib import Path
from typing import Any

from plat.errors import SpecError
from plat_analysis.artifact import Figure
from plat_analysis.claims.reference import FILE, asks
from plat_analysis.figures import style
from plat_analysis.report.report import Report
from tools.documents.bundles import Bundles
from tools.documents.regions import rewritten, stray_numbers
from tools.documents.sources import content

# Pages of results: a measured number is allowed only in a region.
TOLD = "quickstart reproduction results findings searches base-models paper-scale tasks controls".split()
RESULTS = ("README.md", *(f"docs/{name}.md" for name in TOLD))
VERDICTS = Path("experiments") / FILE  # see `plat_analysis.claims.reference`
IMAGES, REDRAW = Path("docs/images"), "`make results` draws it"
AGAIN = "`make results` writes it again"


def write(root: Path) -> list[str]:
    """Rewrite every region of every page, the pictures and the verdicts; return a line for each changed page.

    Pictures are drawn each time and not in the list. Raises SpecError for a region that cannot be made.
    """
    bundles, changed = Bundles(root), []
    for page, text, new in _rewritten(root, bundles, draw=True):
        if new != text:
            (root / page).write_text(new, encoding="utf-8")
            changed.append(f"{page} written")
    verdicts = verdicts_text(bundles)
    if _read(root / VERDICTS) != verdicts:
        (root / VERDICTS).write_text(verdicts, encoding="utf-8")
        changed.append(f"{VERDICTS} written")
    return changed


def problems(root: Path, bundles: Bundles | None = None) -> list[str]:
    """Return one line for each problem with the numbers of the pages. Writes nothing. SpecError for an invalid region.

    bundles  source of the numbers, by default those of `root`; reuse makes a second check fast
    """
    bundles, lines = bundles or Bundles(root), []
    for page, text, new in _rewritten(root, bundles, draw=False):
        lines += [f"{page}:{line}: this is not what the bundles say; {AGAIN}" for line in _changed(text, new)]
        if str(page) in RESULTS:
            lines += stray_numbers(page, text)
    if _read(bundles.root / VERDICTS) != verdicts_text(bundles):
        lines.append(f"{VERDICTS}: these are not the verdicts of the bundles; {AGAIN}")
    return lines


def _read(path: Path) -> str:
    """Return the content of a file, or "" if it does not exist."""
    return path.read_text(encoding="utf-8") if path.is_file() else ""


def _changed(text: str, new: str) -> list[int]:
    """Return the numbers of the lines that differ; only the first if the number of lines differs."""
    old_lines, new_lines = text.splitlines(), new.splitlines()
    pairs = zip_longest(old_lines, new_lines)
    numbers = [number for number, (old, new) in enumerate(pairs, start=1) if old != new]
    if not numbers and text != new:  # they differ in how their last line ends
        return [len(old_lines)]
    return numbers if len(old_lines) == len(new_lines) else numbers[:1]


def _rewritten(root: Path, bundles: Bundles, draw: bool) -> Iterator[tuple[Path, str, str]]:
    """Yield README.md and every page of docs/, relative to the root, with its text and its text as it should be."""
    pictures = Pictures(root, draw)
    for page in [Path("README.md"), *sorted(path.relative_to(root) for path in (root / "docs").glob("*.md"))]:

        def content_of(what: str, place: str, page: Path = page) -> str:
            try:
                return content(what, bundles.report, lambda name, figure: pictures.markdown(name, figure, page))
            except SpecError as error:
                error.where = f"{place} ({error.where})" if error.where else place
                raise

        text = (root / page).read_text(encoding="utf-8")
        yield page, text, rewritten(page, text, content_of)


class Pictures:
    """Draw or check the pictures of the pages.

    A picture carries the hash of its numbers, and the page the hash of the file, so that outdated and replaced pictures
    are found. `draw`: write them; otherwise SpecError for one not drawn from the present numbers.
    """

    def __init__(self, root: Path, draw: bool) -> None:
        self.root, self.draw = root, draw

    def markdown(self, experiment: str, figure: Figure, page: Path) -> str:
        """Return the link and hashes of a picture for `page`. Draws it if `draw`, else SpecError if it is outdated."""
        path = self.root / IMAGES / f"{experiment}-{figure.name}.png"
        if self.draw:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(style.images(figure)["png"])
        elif not path.is_file():
            raise SpecError(f"the figure {figure.name!r} has not been drawn", where=str(path), fix=REDRAW)
        content, data = path.read_bytes(), figure.fingerprint
        if not style.is_drawn_from(content, data):
            raise SpecError("the picture was not drawn from these numbers", where=str(path), fix=REDRAW)
        link = (IMAGES / path.name).relative_to(page.parent).as_posix()
        return f"![{figure.title}]({link})\n\n<!-- numbers {data}, picture {sha256(content).hexdigest()} -->"


def verdicts_text(bundles: Bundles) -> str:
    """Return the content of VERDICTS: an entry for each experiment file with claims and results in a bundle."""
    entries = {}
    for name, folder in sorted(bundles.folders().items()):
        if bundles.claims_of(name):
            entries[name] = _entry(bundles.report(name), folder.relative_to(bundles.root).as_posix())
    return json.dumps(entries, indent=1, ensure_ascii=False, sort_keys=True) + "\n"


def _entry(report: Report, results: str) -> dict[str, Any]:
    """Return the entry of an experiment file from the report of its committed results."""
    experiment = report.experiment
    asked = {str(claim.get("id", claim.get("check"))): asks(claim) for claim in experiment.claims}
    return {
        "command": shlex.join(["plat", "sweep", experiment.path.as_posix(), *experiment.overrides]),
        "results": results,
        "runs": sum(not run.missing for run in report.results.runs),
        "claims": {
            verdict.id: {
                "asks": asked[verdict.id],
                "verdict": verdict.status.replace("_", " "),
                "found": verdict.reason,
            }
            for verdict in report.claims
        },
    }
