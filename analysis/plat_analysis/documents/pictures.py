"""Pictures of the pages. A picture carries the hash of the numbers that it draws, and the page the hash of its file, so
that neither another picture nor one of older numbers stands in its place unnoticed.
"""

from __future__ import annotations

from hashlib import sha256
from pathlib import Path

from plat.errors import SpecError
from plat_analysis.artifact import Figure
from plat_analysis.figures import style

IMAGES = Path("docs/images")
REDRAW = "`make results` draws it"


class Pictures:
    """`pictures.markdown(experiment, figure, page)` is what stands in a page for a figure.

    draw  write the pictures; else nothing is written, and SpecError says which are not of these numbers
    """

    def __init__(self, root: Path, draw: bool) -> None:
        self.root, self.draw = root, draw

    def markdown(self, experiment: str, figure: Figure, page: Path) -> str:
        """The picture's link with the hashes of its numbers and its file behind it."""
        path = self.root / IMAGES / f"{experiment}-{figure.name}.png"
        if self.draw:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(style.images(figure)["png"])
        elif not path.is_file():
            raise SpecError(f"the figure {figure.name!r} has not been drawn", where=str(path), mend=REDRAW)
        content, data = path.read_bytes(), figure.fingerprint
        if not style.is_drawn_from(content, data):
            raise SpecError("the picture was not drawn from these numbers", where=str(path), mend=REDRAW)
        link = (IMAGES / path.name).relative_to(page.parent).as_posix()
        return f"![{figure.title}]({link})\n\n<!-- numbers {data}, picture {sha256(content).hexdigest()} -->"
