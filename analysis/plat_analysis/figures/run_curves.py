"""Draw curves of a few runs over each other, one panel per metric, for `plat diff --out`."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence

from plat_analysis.figures.style import PALETTE, STYLE, whole_numbers

FORMATS = ("png", "svg", "pdf")
Curves = Mapping[str, Sequence[tuple[int, float]]]  # run -> (iteration, value)


def draw(panels: Mapping[str, Curves], kind: str) -> bytes:
    """Return the picture as bytes; `kind` is one of `FORMATS`, and `panels` maps a metric to the curves of runs."""
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    with rc_context(STYLE):  # type: ignore[arg-type]
        canvas = Figure(figsize=(7, 2.6 * len(panels) + 0.4), layout="constrained")
        all_axes = canvas.subplots(len(panels), 1, squeeze=False)[:, 0]
        for axes, (metric, curves) in zip(all_axes, panels.items(), strict=True):
            axes.set_title(metric)
            axes.set_xlabel("iteration")
            axes.xaxis.set_major_locator(whole_numbers())
            for index, (run, curve) in enumerate(curves.items()):
                steps, values = [step for step, _ in curve], [value for _, value in curve]
                style = "-" if index < len(PALETTE) else "--"
                axes.plot(steps, values, style, color=PALETTE[index % len(PALETTE)], label=run)
        all_axes[0].legend(frameon=False, fontsize=7)
        picture = io.BytesIO()
        metadata = {"png": {"Software": None}, "svg": {"Date": None, "Creator": None}, "pdf": {"CreationDate": None}}
        canvas.savefig(picture, format=kind, dpi=200, metadata=metadata[kind])
    return picture.getvalue()
