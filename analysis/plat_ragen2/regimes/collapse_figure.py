"""Draw a collapse: six quantities over training, a panel each, conditions by colour, with named reference levels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from plat_analysis.data.labels import label
from plat_analysis.data.results import Curve
from plat_analysis.figures import condition_curves as curves
from plat_analysis.figures import style
from plat_analysis.figures.condition_curves import ConditionCurves
from plat_analysis.shown_text import shortened
from plat_ragen2.regimes.regime import Thresholds

TITLES = {
    "retrieval": "Retrieval accuracy",
    "entropy": "Reasoning entropy H(Z|X)",
    "parses": "Reasonings that parse",
    "success": "Validation success",
    "actor_entropy": "Policy entropy",
    "moves": "Moves per turn",
}
RATES = ("retrieval", "parses", "success")
IN_NATS = ("entropy", "actor_entropy")
BELOW = ("actor_entropy", "moves", "success")  # the panels of the lower row


def draw(
    panels: dict[tuple[str, str], ConditionCurves],
    faint: dict[tuple[str, str], ConditionCurves],
    conditions: list[str],
    baseline: str,
    chances: Sequence[Curve | None],
    log_vocabulary: float | None,
    limits: Thresholds,
) -> style.Canvas:
    """Draw three panels above (input dependence and language), three below (behaviour).

    panels  (quantity, condition) -> the curves of the panel; quantities: retrieval, entropy, parses, actor_entropy,
            moves, success
    chances the chance level over training of the retrieval drawn in bold, and of the batches of training if they are
            drawn as well; a level that stays the same is named in the panel
    faint   (quantity, condition) -> faint curves of the batches of training, for the quantities with probes
    """
    looks = style.looks(conditions, baseline)
    figure = style.canvas(8.6, 5.2)
    grid = figure.add_gridspec(2, 3, left=0.055, right=0.985, top=0.87, bottom=0.085, hspace=0.42, wspace=0.28)
    cells = {
        "retrieval": grid[0, 0],
        "entropy": grid[0, 1],
        "parses": grid[0, 2],
        "actor_entropy": grid[1, 0],
        "moves": grid[1, 1],
        "success": grid[1, 2],
    }
    short = {c: curves.seeds_note(panels["retrieval", c]) for c in conditions}
    style.key_line(
        figure, [(" · ".join(filter(None, [shortened(label(c), 40), short[c]])), looks[c]) for c in conditions], 0.965
    )
    for key, cell in cells.items():
        axis = figure.add_subplot(cell)
        bounds = (0.0, 1.0) if key in RATES else (0.0, float("inf"))
        for condition in conditions:
            curves.draw(axis, panels[key, condition], looks[condition], bounds=bounds)
            if (key, condition) in faint:
                colour, probed, batches = looks[condition].colour, panels[key, condition], faint[key, condition]
                points: dict[str, Any] = {"color": colour, "ms": 3.5, "mec": "white", "mew": 0.5, "zorder": 4.5}
                axis.plot(batches.steps, batches.mean, color=colour, linewidth=0.7, alpha=0.35, zorder=1.8)
                axis.plot(probed.steps, probed.mean, looks[condition].marker, **points)
        _scale(axis, key)
        if key == "retrieval":
            _chance_levels(axis, chances)
        if key == "entropy":
            _entropy_references(axis, [panels[key, condition] for condition in conditions], log_vocabulary, limits)
        if key == "parses":
            _reference(axis, limits.fluent, f"{100 * limits.fluent:g} %", above=False)
        if not axis.lines:
            axis.text(
                0.5, 0.5, "not measured", transform=axis.transAxes, ha="center", color=style.QUIET, style="italic"
            )
    return figure


def _scale(axis: style.Axes, key: str) -> None:
    """Set title, limits, ticks and labels of a panel."""
    axis.set_title(TITLES[key])
    style.quiet_grid(axis)
    axis.margins(x=0.02)
    if key in RATES:
        axis.set_ylim(0, 1.02)
        axis.set_yticks([0, 0.25, 0.5, 0.75, 1], ["0", "25 %", "50 %", "75 %", "100 %"])
    else:
        axis.set_ylim(bottom=0)
    if key in IN_NATS:
        axis.set_ylabel("nats per token")
    if key in BELOW:
        axis.set_xlabel("training iteration")


def _chance_levels(axis: style.Axes, chances: Sequence[Curve | None]) -> None:
    """Name each chance level that stays the same, once, and draw each that changes as a dotted line."""
    named: set[float] = set()
    for steps, values in filter(None, chances):
        level = float(values[-1])
        if float(values.max()) > float(values.min()):
            axis.plot(steps, values, ":", color=style.QUIET, linewidth=0.9, zorder=1)
        elif level not in named:
            _reference(axis, level, f"chance {100 * level:g} %", above=False, left=True)
            named.add(level)


def _entropy_references(
    axis: style.Axes, drawn: list[ConditionCurves], log_vocabulary: float | None, limits: Thresholds
) -> None:
    """Scale the panel to its values, with the thresholds of low entropy and of noise if they lie in it."""
    lines = [values for curves_of in drawn for _, values in curves_of.lines]
    if not lines:
        return
    low = limits.low * sum(float(values[0]) for values in lines) / len(lines)
    top = 1.25 * max(low, *(float(values.max()) for values in lines))
    axis.set_ylim(0, top)
    _reference(axis, low, f"{limits.low:g} of the start: low entropy", above=False)
    if log_vocabulary is None:
        return
    noise = limits.noise * log_vocabulary
    if noise < top:
        _reference(axis, noise, f"{limits.noise:g} ln V: above it, noise")
    axis.text(
        0.02, 0.97, f"uniform tokens: {log_vocabulary:.2f}; noise above {noise:.2f}",
        transform=axis.transAxes, ha="left", va="top", fontsize=6.5, color=style.QUIET,
    )  # fmt: skip


def _reference(axis: style.Axes, height: float, text: str, above: bool = True, left: bool = False) -> None:
    axis.axhline(height, color="#9a9a9a", linewidth=0.9, linestyle=(0, (2, 2)), zorder=1.5)
    axis.annotate(
        text,
        (0.02 if left else 1, height),
        (0, 2 if above else -2),
        xycoords=("axes fraction", "data"),
        textcoords="offset points",
        fontsize=6.5,
        color=style.QUIET,
        ha="left" if left else "right",
        va="bottom" if above else "top",
        bbox={"facecolor": "white", "edgecolor": "none", "alpha": 0.75, "pad": 0.6},  # readable over curves
    )
