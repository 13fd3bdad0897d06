"""Draw the rooms of plat from the table of imports that `tests/test_architecture.py` checks.

python -m tools.site.rooms    writes docs/images/architecture.svg
"""

from __future__ import annotations

import runpy
from collections.abc import Iterator, Mapping
from html import escape
from pathlib import Path
from textwrap import wrap

ROOT = Path(__file__).parent.parent.parent
PICTURE = ROOT / "docs" / "images" / "architecture.svg"
Rules = Mapping[str, set[str]]
# The picture is as wide as a phone shows it. Its colours suit a light page and a dark one.
WIDTH, GAP, LINE, TOP = 330, 22, 14, 34
COLUMNS = ((0, 212), (224, 106))  # x and width of the first and the second room of a layer
STYLE = """
text { font: 11px sans-serif; fill: #fff } .name { font: bold 14px sans-serif }
rect { fill: #3f51b5; rx: 6px } .all { fill: #546e7a } path { fill: none; stroke: #8a93a3; stroke-width: 1.5 }
"""


def rules() -> tuple[dict[str, set[str]], tuple[str, ...]]:
    """Return what each room may import, and the modules that all rooms may import."""
    table = runpy.run_path(str(ROOT / "tests" / "test_architecture.py"))
    everywhere = table["EVERYWHERE"]
    left_out = {*everywhere, "plat", "plat.__main__", "plat.entry"}
    left_out |= {room for room in table["MAY_IMPORT"] if room.startswith("plat_rl.")}
    rooms = {room: imports - {room} - left_out for room, imports in table["MAY_IMPORT"].items() if room not in left_out}
    plug_ins = {"plat_rl", "plat_envs", "plat_ragen2"}
    rooms["plat.cli"] = set(rooms) - {"plat.cli"} - plug_ins  # the table lets it import the whole platform
    return rooms, everywhere


def layers(rooms: Rules) -> list[list[str]]:
    """Return the rooms from top to bottom. Each stands one layer below the lowest room that may import it."""

    def depth(room: str) -> int:
        return max((1 + depth(above) for above, imports in rooms.items() if room in imports), default=0)

    depths = {room: depth(room) for room in rooms}
    importers_first = sorted(rooms, key=lambda room: -len(rooms[room]))
    return [[room for room in importers_first if depths[room] == level] for level in range(1 + max(depths.values()))]


def below(room: str, rooms: Rules) -> set[str]:
    """Return every room that a room may import, directly or through others."""
    return rooms[room].union(*(below(other, rooms) for other in rooms[room]))


def arrows(rooms: Rules) -> Iterator[tuple[str, str]]:
    """Yield the imports that no longer way replaces."""
    for room, imports in rooms.items():
        longer = set[str]().union(*(below(other, rooms) for other in imports))
        yield from ((room, target) for target in rooms if target in imports - longer)


def drawn(rooms: Rules, everywhere: tuple[str, ...]) -> str:
    """Return the picture as SVG."""
    order, parts, y = layers(rooms), [], 0
    places: dict[str, tuple[float, int, int]] = {}  # room -> x of its middle, top, bottom
    for layer in order:
        texts = {room: imports_in_words(rooms, room, order, COLUMNS[at][1]) for at, room in enumerate(layer)}
        height = TOP + LINE * max(map(len, texts.values()))
        for (x, width), room in zip(COLUMNS, layer, strict=False):
            parts += box(x, y, width, height, short(room), texts[room])
            places[room] = (x + width / 2, y, y + height)
        y += height + GAP
    for source, target in arrows(rooms):
        (x, _, start), (end_x, end, _) = places[source], places[target]
        end_x += 30 * ((x > end_x) - (x < end_x))  # so that two heads do not meet
        parts.insert(0, f'<path marker-end="url(#tip)" d="M{x:g} {start} V{end - GAP} L{end_x:g} {end - 3}"/>')
    lines = wrap(", ".join(sorted(map(short, everywhere))), 54)
    parts += box(0, y, WIDTH, TOP + LINE * len(lines), "every room may import", lines, kind="all")
    size = f'viewBox="0 0 {WIDTH} {y + TOP + LINE * len(lines)}" width="{WIDTH * 1.3:g}"'
    tip = '<marker id="tip" viewBox="0 0 6 6" refX="5" refY="3" markerWidth="6" markerHeight="6" orient="auto">'
    tip += '<path d="M0 0 L6 3 L0 6 z" style="fill: #8a93a3; stroke: none"/></marker>'
    return "\n".join(
        [f'<svg xmlns="http://www.w3.org/2000/svg" {size}>', f"<style>{STYLE}</style>", tip, *parts, "</svg>\n"]
    )


def imports_in_words(rooms: Rules, room: str, order: list[list[str]], width: int) -> list[str]:
    """Return the lines that say what a room may import, in the order of the layers."""
    names = [short(other) for layer in order for other in layer if other in rooms[room]]
    return wrap("all of these rooms" if len(names) == len(rooms) - 1 else ", ".join(names), width // 6)


def box(x: int, y: int, width: int, height: int, name: str, lines: list[str], kind: str = "") -> list[str]:
    """Return a box with a name and lines of text."""
    texts = [
        f'<text x="{x + 10}" y="{y + TOP + 2 + LINE * number}">{escape(line)}</text>'
        for number, line in enumerate(lines)
    ]
    rect = f'<rect class="{kind}" x="{x}" y="{y}" width="{width}" height="{height}"/>'
    return [rect, f'<text class="name" x="{x + 10}" y="{y + 20}">{escape(name)}</text>', *texts]


def short(room: str) -> str:
    return room.removeprefix("plat.")


if __name__ == "__main__":
    PICTURE.write_text(drawn(*rules()), encoding="utf-8")
