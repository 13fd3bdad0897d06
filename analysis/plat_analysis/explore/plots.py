"""The plots of the page as Bokeh models without data, which the page's own script fills, and BokehJS itself."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from bokeh.plotting import figure as Figure

LINES: dict[str, list[Any]] = {
    "xs": [],
    "ys": [],
    "color": [],
    "alpha": [],
    "width": [],
    "dash": [],
    "run": [],
    "about": [],
}
DOTS: dict[str, list[Any]] = {"x": [], "y": [], "color": [], "run": [], "about": []}


def bokeh_script() -> str:
    """Return the JavaScript of Bokeh that plots need, from the installed package: no widgets, tables or formulas."""
    from bokeh.resources import Resources

    return "\n".join(Resources(mode="inline", minified=True, components=["bokeh"]).js_raw)


def plots() -> dict[str, Any]:
    """Return name -> plot for `Bokeh.embed.embed_item`; equal at every call."""
    from bokeh.embed import json_item

    made = {"curves": _curves(), "parallel": _parallel()}
    return {name: _with_fixed_ids(dict(json_item(plot))) for name, plot in made.items()}


def _curves() -> Figure:
    """Return the plot of curves: bands, single runs, means, dots for curves of one step, and a ring for the pointer."""
    from bokeh.models import BoxZoomTool, ColumnDataSource

    plot = _figure("curves", height=400)
    bands = ColumnDataSource(data={"xs": [], "ys": [], "color": []}, name="bands")
    plot.patches("xs", "ys", source=bands, fill_color="color", fill_alpha=0.18, line_color=None)
    for name in ("runs", "means"):
        _lines(plot, name)
    dots = ColumnDataSource(data=DOTS, name="dots")
    plot.scatter("x", "y", source=dots, size=7, fill_color="color", line_color=None)
    here = ColumnDataSource(data={"x": [], "y": [], "color": []}, name="here")
    plot.scatter("x", "y", source=here, size=11, fill_color=None, line_color="color", line_width=2)
    zoom = BoxZoomTool()
    plot.add_tools(zoom)
    plot.toolbar.active_drag = zoom
    return plot


def _parallel() -> Figure:
    """Return the plot of parallel coordinates: a line for each run, an upright line and its texts for each axis."""
    from bokeh.models import ColumnDataSource

    plot = _figure("parallel", height=340)
    plot.xaxis.visible = plot.yaxis.visible = False
    plot.grid.visible = False
    rules = ColumnDataSource(data={"x": [], "low": [], "high": []}, name="rules")
    plot.segment("x", "low", "x", "high", source=rules, line_width=1, name="rule")
    _lines(plot, "tracks")
    for name, align, shift, baseline in (("marks", "left", 6, "middle"), ("heads", "center", 0, "bottom")):
        source = ColumnDataSource(data={"x": [], "y": [], "text": []}, name=name)
        plot.text("x", "y", "text", source=source, text_align=align, text_baseline=baseline, x_offset=shift,
                  text_font_size="11px", background_fill_alpha=0.7, padding=1, name=f"{name}-text")  # fmt: skip
    return plot


def _figure(name: str, height: int) -> Figure:
    """Return an empty plot without a toolbar, because buttons of the page can be reached by keyboard."""
    from bokeh.models import Range1d
    from bokeh.plotting import figure

    plot = figure(
        name=name,
        height=height,
        sizing_mode="stretch_width",
        tools="",
        toolbar_location=None,
        x_range=Range1d(0, 1, name=f"{name}-x"),
        y_range=Range1d(0, 1, name=f"{name}-y"),
        background_fill_color=None,
        border_fill_color=None,
        outline_line_color=None,
        min_border_right=12,
    )
    for axis in plot.axis:
        axis.minor_tick_line_color = None
    return plot


def _lines(plot: Figure, name: str) -> None:
    """Add lines to a plot, with the look of each in the source `name`."""
    from bokeh.models import ColumnDataSource

    source = ColumnDataSource(data=LINES, name=name)
    plot.multi_line(
        "xs", "ys", source=source, line_color="color", line_alpha="alpha", line_width="width", line_dash="dash",
        line_join="round",
    )  # fmt: skip


def _with_fixed_ids(item: dict[str, Any]) -> dict[str, Any]:
    """Number the ids of models from 1, in order: Bokeh counts on from one plot of a process to the next."""
    known: dict[str, str] = {}

    def renamed(value: Any, key: str = "") -> Any:
        if isinstance(value, dict):
            return {name: renamed(part, name) for name, part in value.items()}
        if isinstance(value, list | tuple):
            return [renamed(part) for part in value]
        if key in ("id", "root_id") and isinstance(value, str):
            return known.setdefault(value, f"p{len(known) + 1}")
        return value

    numbered: dict[str, Any] = renamed(item)
    return numbered
