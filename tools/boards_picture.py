"""Draw docs/images/boards.png: `python -m tools.boards_picture`.

A row for each grid game, with the same board at 8 pixels a cell (enlarged four times) and at 28, in the fixed palette,
in the palette of an instance, and blank. The boards have every tile.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from PIL import Image

from plat_envs.games.pictures import Picture, blank, board, palette_of

FILE = Path(__file__).parent.parent / "docs" / "images" / "boards.png"
BOARDS = {
    "sokoban": "######" "#_PO_#" "#_X_##" "#√_S_#" "#__X_#" "######",
    "frozenlake": "P_O_" "_O_√" "X__O" "O__G",
}  # fmt: skip
GAP = 12  # between pictures [pixels]


def pictures_of(game: str) -> Iterator[Picture]:
    """Yield the pictures of one row."""
    cells = BOARDS[game]
    for place in (None, "train/5"):
        small = board(game, cells, 8, palette_of(game, place))
        yield small.repeat(4, axis=0).repeat(4, axis=1)
        yield board(game, cells, 28, palette_of(game, place))
    yield blank(round(len(cells) ** 0.5), 28)


def sheet() -> Picture:
    """Return all rows on white."""
    rows = [list(pictures_of(game)) for game in BOARDS]
    width = max(sum(picture.shape[1] + GAP for picture in row) for row in rows) + GAP
    height = sum(max(picture.shape[0] for picture in row) + GAP for row in rows) + GAP
    drawn = np.full((height, width, 3), 255, dtype=np.uint8)
    top = GAP
    for row in rows:
        left = GAP
        for picture in row:
            drawn[top : top + picture.shape[0], left : left + picture.shape[1]] = picture
            left += picture.shape[1] + GAP
        top += max(picture.shape[0] for picture in row) + GAP
    return drawn


def main() -> int:
    Image.fromarray(sheet()).save(FILE)
    print(FILE)
    return 0


if __name__ == "__main__":
    sys.exit(main())
