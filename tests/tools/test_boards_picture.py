"""The picture of boards in the documentation is what the drawings give now."""

from __future__ import annotations

import numpy as np
from PIL import Image
from tools import boards_picture

from plat_envs.games.pictures import SYMBOLS


def test_the_committed_picture_is_up_to_date():
    with Image.open(boards_picture.FILE) as committed:
        assert (np.array(committed.convert("RGB")) == boards_picture.sheet()).all(), "python -m tools.boards_picture"


def test_it_has_every_tile():
    assert {game: set(cells) for game, cells in boards_picture.BOARDS.items()} == {
        game: set(symbols) for game, symbols in SYMBOLS.items()
    }
