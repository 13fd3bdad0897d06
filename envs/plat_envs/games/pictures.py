"""Pictures of the boards of Sokoban and FrozenLake, drawn by rectangles on whole pixels.

A tile is drawn as numbers of colours, once for each size; a palette gives the colours of a board. Rectangles on whole
pixels have no smooth edges, and every version of Pillow fills them alike, so equal arguments give equal bytes.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from colorsys import hsv_to_rgb
from functools import lru_cache
from math import isqrt
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw

Picture: TypeAlias = NDArray[np.uint8]
Palette: TypeAlias = tuple[tuple[int, int, int], ...]  # red, green, blue in 0..255 of each of COLOURS[game], in order

# Game -> what has a colour -> hue [degrees], saturation and value in [0, 1]. Hues that could be confused are more than
# 2 * HUE_SHIFT apart, or differ much in saturation or value.
COLOURS: dict[str, dict[str, tuple[int, float, float]]] = {
    "sokoban": {
        "ground": (45, 0.10, 0.95),
        "line": (45, 0.14, 0.82),
        "wall": (10, 0.55, 0.55),
        "mortar": (10, 0.20, 0.80),
        "target": (140, 0.95, 0.62),
        "box": (42, 0.72, 0.90),
        "edge": (30, 0.85, 0.36),
        "player": (225, 0.85, 0.80),
        "face": (45, 0.02, 1.00),
    },
    "frozenlake": {
        "ground": (195, 0.16, 0.97),
        "line": (205, 0.30, 0.84),
        "hole": (235, 0.75, 0.28),
        "rim": (210, 0.50, 0.62),
        "pole": (30, 0.60, 0.25),
        "flag": (140, 0.95, 0.60),
        "player": (15, 0.90, 0.88),
        "face": (45, 0.02, 1.00),
    },
}
HUE_SHIFT = 15  # of each colour, at most, up or down [degrees]
DARKEST = 0.75  # factor of all values of a palette, from this to 1
GREY = 128  # of a blank board

SIDE = 16  # coordinates of drawings: sixteenths of the side of a tile
FINE = 16  # smaller tiles have no details [pixels]


class _Tile:
    """A tile of `px` pixels to draw on. Coordinates are sixteenths of its side, from the top left corner."""

    def __init__(self, game: str, px: int) -> None:
        self.px = px
        self.numbers = {name: number for number, name in enumerate(COLOURS[game])}
        self.image = Image.new("L", (px, px), self.numbers["ground"])
        self._draw = ImageDraw.Draw(self.image)
        if px >= FINE:  # lines between the cells
            self.bar("line", 0, 15, 16, 16)
            self.bar("line", 15, 0, 16, 16)

    def _pixel(self, sixteenths: int) -> int:
        return (2 * sixteenths * self.px + SIDE) // (2 * SIDE)

    def bar(self, colour: str, left: int, top: int, right: int, bottom: int) -> None:
        """Fill a rectangle. One that is narrower than a pixel is left out."""
        x, y, x_end, y_end = map(self._pixel, (left, top, right, bottom))
        if x < x_end and y < y_end:
            self._draw.rectangle((x, y, x_end - 1, y_end - 1), fill=self.numbers[colour])

    def disc(self, colour: str, x: int, y: int, radius: int) -> None:
        """Fill the pixels whose centres are at most `radius` from (x, y), row by row."""
        scale = 2 * self.px  # whole numbers for the centres of pixels, too
        for row in range(self.px):
            inside = (radius * scale) ** 2 - ((2 * row + 1) * SIDE - y * scale) ** 2
            if inside < 0:
                continue
            half = isqrt(inside)
            first = -((half + SIDE - x * scale) // (2 * SIDE))
            last = (x * scale + half - SIDE) // (2 * SIDE)
            if first <= last:
                self._draw.rectangle((first, row, last, row), fill=self.numbers[colour])

    def cross(self, colour: str, first: int, last: int, width: int) -> None:
        """Draw both diagonals of the square from `first` to `last`, `width` pixels wide."""
        start, end = self._pixel(first), self._pixel(last)
        for row in range(start, end):
            for column in (row, start + end - 1 - row):
                left, right = max(start, column - width // 2), min(end - 1, column + (width - 1) // 2)
                self._draw.rectangle((left, row, right, row), fill=self.numbers[colour])


# The tiles.


def _floor(tile: _Tile) -> None:
    """The ground is there already."""


def _wall(tile: _Tile) -> None:
    tile.bar("wall", 0, 0, 16, 16)
    for top, joint in ((0, 6), (8, 14)):
        tile.bar("mortar", 0, top + 6, 16, top + 8)
        tile.bar("mortar", joint, top, joint + 2, top + 8)


def _ring(tile: _Tile) -> None:
    tile.disc("target", 8, 8, 8)
    tile.disc("ground", 8, 8, 6)


def _target(tile: _Tile) -> None:
    _ring(tile)
    tile.disc("target", 8, 8, 3)


def _crate(tile: _Tile) -> None:
    tile.bar("edge", 2, 2, 14, 14)
    tile.bar("box", 4, 4, 12, 12)


def _box(tile: _Tile) -> None:
    _crate(tile)
    tile.cross("edge", 4, 12, max(1, tile.px // 10))


def _box_on_target(tile: _Tile) -> None:
    _ring(tile)
    _crate(tile)
    tile.disc("target", 8, 8, 3)


def _figure(tile: _Tile, right: int = 0) -> None:
    """Draw the player, `right` sixteenths to the right of the middle."""
    tile.disc("player", right + 8, 4, 3)
    tile.bar("player", right + 4, 6, right + 12, 12)
    tile.bar("player", right + 4, 12, right + 6, 14)
    tile.bar("player", right + 10, 12, right + 12, 14)
    if tile.px >= FINE:
        tile.bar("face", right + 6, 3, right + 7, 4)
        tile.bar("face", right + 9, 3, right + 10, 4)


def _player_on_target(tile: _Tile) -> None:
    _ring(tile)
    _figure(tile)


def _ice(tile: _Tile) -> None:
    for left, top in ((4, 4), (10, 10)):
        tile.bar("line", left, top, left + 2, top + 2)
        tile.bar("line", left + 2, top - 2, left + 4, top)


def _hole(tile: _Tile) -> None:
    tile.disc("rim", 8, 8, 8)
    tile.disc("hole", 8, 8, 6)


def _flag(tile: _Tile, left: int, width: int) -> None:
    """Draw a flag of `width` sixteenths, whose pole begins at `left`."""
    tile.bar("pole", left, 2, left + 2, 14)
    for step in range(4):
        tile.bar("flag", left + 2, 2 + step, left + 2 + width * (step + 1) // 4, 3 + step)
        tile.bar("flag", left + 2, 9 - step, left + 2 + width * (step + 1) // 4, 10 - step)


def _goal(tile: _Tile) -> None:
    tile.bar("pole", 2, 14, 8, 16)
    _flag(tile, 4, 8)


def _player_in_hole(tile: _Tile) -> None:
    _hole(tile)
    tile.disc("player", 8, 4, 3)
    tile.bar("player", 6, 6, 10, 12)
    tile.bar("player", 4, 8, 12, 10)
    for hand in (2, 12):
        tile.bar("player", hand, 4, hand + 2, 8)


def _player_at_goal(tile: _Tile) -> None:
    _flag(tile, 10, 4)
    _figure(tile, -4)


_DRAWINGS: dict[str, dict[str, Callable[[_Tile], None]]] = {
    "sokoban": {
        "#": _wall,
        "_": _floor,
        "O": _target,
        "√": _box_on_target,
        "X": _box,
        "P": _figure,
        "S": _player_on_target,
    },
    "frozenlake": {
        "P": _figure,
        "_": _ice,
        "O": _hole,
        "G": _goal,
        "X": _player_in_hole,
        "√": _player_at_goal,
    },
}
SYMBOLS = {game: tuple(drawings) for game, drawings in _DRAWINGS.items()}  # of the text rendering


@lru_cache(maxsize=64)
def _tile(game: str, symbol: str, px: int) -> Picture:
    """Return a tile as numbers of colours, an array (px, px). Cached: do not change it."""
    tile = _Tile(game, px)
    _DRAWINGS[game][symbol](tile)
    return np.array(tile.image)


@lru_cache(maxsize=4096)
def palette_of(game: str, place: str | None = None) -> Palette:
    """Return the fixed palette, or another one for each text `place`, such as "train/7"."""
    rng = None if place is None else random.Random(f"palette/{game}/{place}")
    light = 1.0 if rng is None else rng.uniform(DARKEST, 1.0)
    colours = []
    for hue, saturation, value in COLOURS[game].values():
        shift = 0.0 if rng is None else rng.uniform(-HUE_SHIFT, HUE_SHIFT)
        red, green, blue = hsv_to_rgb((hue + shift) % 360 / 360, saturation, value * light)
        colours.append((round(255 * red), round(255 * green), round(255 * blue)))
    return tuple(colours)


def board(game: str, cells: Sequence[str], cell_px: int, palette: Palette) -> Picture:
    """Return the picture of a square board.

    cells     the symbol of each cell in the text rendering, row by row
    cell_px   side of a cell [pixels]

    The array has shape (side, side, 3), with side = cells in a row * cell_px.
    """
    size = isqrt(len(cells))
    tiles = np.stack([_tile(game, symbol, cell_px) for symbol in cells]).reshape(size, size, cell_px, cell_px)
    numbers = tiles.transpose(0, 2, 1, 3).reshape(size * cell_px, size * cell_px)
    return np.array(palette, dtype=np.uint8)[numbers]


def blank(size: int, cell_px: int) -> Picture:
    """Return a grey picture of the same shape as that of a board with `size` cells in a row."""
    return np.full((size * cell_px, size * cell_px, 3), GREY, dtype=np.uint8)
