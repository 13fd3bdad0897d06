"""Style of all figures, and their files, which are equal bytes from one rebuild to the next.

Colours are Okabe and Ito's, which are distinct for all common kinds of colour blindness. pyplot, with its global state,
is not used.
"""

from __future__ import annotations

import contextlib
import io
import re
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING, Any, TypeAlias

from plat_analysis.artifact import Figure
from plat_analysis.shown_text import printable, shortened

if TYPE_CHECKING:
    import matplotlib.axes
    import matplotlib.figure
    from matplotlib.artist import Artist
    from matplotlib.ticker import Locator
    from matplotlib.transforms import Bbox

    Axes: TypeAlias = matplotlib.axes.Axes  # figures name them `style.Axes` and `style.Canvas`
    Canvas: TypeAlias = matplotlib.figure.Figure

INK, QUIET, GRID = "#222222", "#6b6b6b", "#e4e4e4"
BASELINE = "#7a7a7a"
PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
PUBLISHED = "#D55E00"
DASHES = ("-", (0, (5, 1.4)), (0, (1.2, 1.1)), (0, (6, 1.4, 1.2, 1.4)), (0, (2.6, 1.1)), (0, (8, 1.4, 1, 1.4, 1, 1.4)))
MARKERS = ("o", "s", "^", "D", "v", "P", "X")
LONGEST_LABEL = 160  # characters of a tooltip; the list below the figure has all
TITLE_PER_INCH = 12  # characters of a title
LEFT = 0.01  # where title and key begin, in figure fractions
KEY_LINE = 0.2  # inches from one line of a key to the next
NUMBERS = "plat:numbers"  # the text chunk of a PNG that names what it draws

FONTS = b"'DejaVu Sans', Verdana, sans-serif"  # Verdana has the same widths

STYLE: dict[str, Any] = {
    "font.family": "DejaVu Sans",
    "font.size": 8,
    "axes.titlesize": 9,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.labelsize": 8,
    "axes.labelcolor": QUIET,
    "axes.edgecolor": "#b0b0b0",
    "axes.linewidth": 0.7,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "text.color": INK,
    "xtick.color": QUIET,
    "ytick.color": QUIET,
    "xtick.labelsize": 7,
    "ytick.labelsize": 7,
    "xtick.major.width": 0.7,
    "ytick.major.width": 0.7,
    "xtick.major.size": 2.5,
    "ytick.major.size": 2.5,
    "lines.linewidth": 1.6,
    "lines.solid_capstyle": "round",
    "savefig.facecolor": "white",
    "svg.fonttype": "none",
    "pdf.fonttype": 42,
    "axes.unicode_minus": True,
    "text.parse_math": False,  # a label with a dollar sign is text, not a formula
}


@dataclass(frozen=True)
class Look:
    """Hold a condition's colour, dash and marker, so that it is known without colour, too. `place`: its index."""

    colour: str
    dash: Any = "-"
    marker: str = "o"
    place: int = 0  # among the conditions


def looks(conditions: list[str], baseline: str) -> dict[str, Look]:
    """Return condition -> its dash, marker and colour: the baseline is solid and grey.

    If the others are more than two and all numbers, they have a scale of colours, else the palette. `baseline` has a
    look even if it is not in `conditions`.
    """
    others = [condition for condition in conditions if condition != baseline]
    colours = {condition: PALETTE[i % len(PALETTE)] for i, condition in enumerate(others)}
    with contextlib.suppress(ValueError):  # where a condition is no number
        ranks = sorted(others, key=float)
        if len(ranks) > 2:  # an ordered axis: an ordered scale
            from matplotlib import colormaps
            from matplotlib.colors import to_hex

            colours = {c: to_hex(colormaps["viridis"](0.9 * i / (len(ranks) - 1))) for i, c in enumerate(ranks)}
    colours[baseline] = BASELINE
    return {
        name: Look(colours[name], DASHES[i % len(DASHES)], MARKERS[i % len(MARKERS)], i)
        for i, name in enumerate([baseline, *others])
    }


def key_line(figure: Canvas, entries: Sequence[tuple[str, str | Look]], y: float) -> None:
    """Draw the key as lines of coloured words under the title, in place of a legend box.

    An entry with a look shows a sample of its curve to the left of its words. Entries that do not fit into one line of
    text are broken into several.

    y  height of the lowest line of text, in figure fractions; the others are above it
    """
    lines: list[list[Artist]] = [[]]
    x = LEFT
    for text, look in entries:
        drawn, end = _key_entry(figure, text, look, x, y)
        if end > 1 and lines[-1]:
            _move(drawn, LEFT - x, 0.0)
            lines.append([])
            end += LEFT - x
        lines[-1] += drawn
        x = end + 0.02
    for above, line in enumerate(reversed(lines)):
        _move(line, 0.0, above * KEY_LINE / figure.get_figheight())


def _key_entry(figure: Canvas, text: str, look: str | Look, x: float, y: float) -> tuple[list[Artist], float]:
    """Draw one entry of a key that begins at x, and return it with the x of its end."""
    from matplotlib.lines import Line2D

    drawn: list[Artist] = []
    sample, colour = 0.3 / figure.get_figwidth(), look.colour if isinstance(look, Look) else look
    if isinstance(look, Look):
        ends = [x, x + sample / 2, x + sample]
        style: dict[str, Any] = {"color": colour, "linestyle": look.dash, "marker": look.marker, "markevery": [1]}
        drawn.append(figure.add_artist(Line2D(ends, [y] * 3, markersize=3.6, linewidth=1.5, **style)))
        x += 1.25 * sample
    words = figure.text(x, y, text, color=colour, fontsize=8.5, fontweight="bold", va="center")
    renderer = figure.canvas.get_renderer()  # type: ignore[attr-defined]
    return [*drawn, words], x + words.get_window_extent(renderer).width / figure.bbox.width


def _move(drawn: Sequence[Artist], right: float, up: float) -> None:
    import numpy as np
    from matplotlib.lines import Line2D
    from matplotlib.text import Text

    for artist in drawn if right or up else ():
        if isinstance(artist, Line2D):
            artist.set_data(np.asarray(artist.get_xdata()) + right, np.asarray(artist.get_ydata()) + up)
        elif isinstance(artist, Text):
            x, y = artist.get_position()
            artist.set_position((x + right, y + up))


def quiet_grid(axes: Axes, which: str = "y") -> None:
    """Draw hairlines behind the data; `which` is the axis with the ticks: `x`, `y` or `both`."""
    axes.grid(axis=which, color=GRID, linewidth=0.6)  # type: ignore[arg-type]
    axes.set_axisbelow(True)


def interval_dot(
    axis: Axes, y: int, value: float, ends: tuple[float | None, float | None], star: int, gid: str
) -> None:
    """Draw a value with its interval at height y, dark if it is starred."""
    colour = INK if star else "#8a8a8a"
    if ends[0] is not None and ends[1] is not None:
        axis.plot(ends, [y, y], color=colour, linewidth=1.4, zorder=3)  # type: ignore[arg-type]
    axis.plot([value], [y], "o", color=colour, ms=5, mec="white", mew=0.6, zorder=4, gid=gid)


def absent_dot(axis: Axes, y: int, note: str) -> None:
    """Write at height y the first part of `note`, why there is no value; `missing` if it is empty."""
    why = note.split(";")[0][:24] or "missing"
    axis.text(0, y, " " + why, va="center", fontsize=6.5, color=QUIET, style="italic")


def whole_numbers() -> Locator:
    """Return the tick locator of an axis of iterations."""
    from matplotlib.ticker import MaxNLocator

    return MaxNLocator("auto", steps=[1, 2, 2.5, 5, 10], integer=True)


def canvas(width: float, height: float) -> Canvas:
    """Return an empty figure of that size in inches, with the Agg canvas for measuring text."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure as Canvas

    drawn = Canvas(figsize=(width, height))
    FigureCanvasAgg(drawn)
    return drawn


def images(figure: Figure, kinds: Sequence[str] = ("svg", "png", "pdf")) -> dict[str, bytes]:
    """Return kind -> file: `svg` and `pdf` with searchable text, `png` at 200 dpi. Equal figures give equal bytes."""
    import matplotlib

    metadata: dict[str, dict[str, Any]] = {
        "svg": {"Date": None, "Creator": None},
        "png": {"Software": None, NUMBERS: figure.fingerprint},
        "pdf": {"CreationDate": None, "Creator": None, "Producer": None},
    }
    files = {}
    with matplotlib.rc_context({**STYLE, "svg.hashsalt": figure.name}), warnings.catch_warnings():  # type: ignore[dict-item]
        warnings.filterwarnings("ignore", "Glyph .* missing from font")  # a value in another script: SVG shows it
        drawn = figure.draw()
        area = _titled(drawn, figure.title)
        for kind in kinds:
            picture, said = io.BytesIO(), metadata[kind]
            drawn.savefig(picture, format=kind, dpi=200 if kind == "png" else "figure", metadata=said, bbox_inches=area)
            files[kind] = picture.getvalue()
    return {
        kind: picture.replace(b"'DejaVu Sans'", FONTS) if kind == "svg" else picture for kind, picture in files.items()
    }


def _titled(drawn: Canvas, title: str) -> Bbox:
    """Write the title above the figure, and return the area in inches that holds both."""
    from matplotlib.transforms import Bbox

    width, height = drawn.get_size_inches()
    text = shortened(title, int(TITLE_PER_INCH * width))
    ends = [(words.get_position()[1] - 1) * height + 0.1 for words in drawn.texts]
    above = max([end for end in ends if end > 0.1], default=0.0)  # height of a key of several lines
    drawn.text(LEFT, 1 + (0.1 + above) / height, text, fontsize=10, fontweight="bold", color=INK, va="bottom")
    return Bbox([[0, 0], [width, height + 0.36 + above]])


def is_drawn_from(png: bytes, fingerprint: str) -> bool:
    """Return True if a PNG of `images` draws the numbers with this fingerprint."""
    return f"{NUMBERS}\0{fingerprint}".encode() in png


def inline(figure: Figure, svg: bytes, anchor: str) -> str:
    """Return the SVG as an element of an HTML page, its ids made unique by `anchor`.

    Each artist with a title becomes a link to the list entry `<anchor>-<gid>-runs`, so that the keyboard reaches it.
    """
    text = svg.decode()
    text = text[text.index("<svg") :]
    text = re.sub(r"<metadata>.*?</metadata>", "", text, flags=re.DOTALL)
    text = re.sub(r'\bid="', f'id="{anchor}-', text)
    text = re.sub(r'href="#', f'href="#{anchor}-', text)
    text = re.sub(r"url\(#", f"url(#{anchor}-", text)
    for gid, title in figure.titles.items():
        text = _linked(text, f"{anchor}-{gid}", title)
    width = re.search(r'<svg [^>]*?width="([\d.]+)pt"', text)
    text = re.sub(r'<svg ([^>]*?)width="[^"]*" ?', r"<svg \1", text, count=1)
    text = re.sub(r'<svg ([^>]*?)height="[^"]*" ?', r"<svg \1", text, count=1)
    widest = f"{1.6 * float(width[1]):.0f}px" if width else "none"  # at most a little larger than on paper
    label = escape(figure.title, quote=True)
    return text.replace("<svg ", f'<svg role="group" aria-label="{label}" style="max-width: {widest}" ', 1)


def _linked(text: str, name: str, title: str) -> str:
    """Put the SVG group of this id inside a link to the list of its numbers; unchanged without the group."""
    start = text.find(f'<g id="{name}">')
    if start < 0:
        return text
    depth, end = 0, start
    for tag in re.compile(r"<g[ >]|</g>").finditer(text, start):
        depth += 1 if tag[0] != "</g>" else -1
        if depth == 0:
            end = tag.end()
            break
    said = escape(shortened(printable(title), LONGEST_LABEL))
    opened = f'<a href="#{name}-runs"><title>{said}</title>'
    return f"{text[:start]}{opened}{text[start:end]}</a>{text[end:]}"
