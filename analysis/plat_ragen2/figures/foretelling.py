"""Draw how early, and how much, metrics predict the outcome of a setting beyond success: a line each over iterations.

Each setting is predicted from the runs of all others (`statistics.leads`). A filled dot adds something, with the error
held over the figure (Holm).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from plat_analysis.artifact import Figure, number, p_value
from plat_analysis.builder_options import takes
from plat_analysis.contrasts.setting_correlations import Foretelling, check_steps
from plat_analysis.data.labels import label
from plat_analysis.data.results import Results
from plat_analysis.figures import style
from plat_analysis.shown_text import shortened
from plat_analysis.statistics.families import ERROR, holm
from plat_analysis.statistics.intervals import MIN_JUDGED
from plat_analysis.statistics.leads import Foretold

Key = tuple[str, str, int]  # row, metric by its printed name, iteration


@dataclass(frozen=True, kw_only=True)
class Options(Foretelling):
    """Hold the options of predictions at several iterations.

    steps       iterations along the figure; metrics count as last measured by then
    """

    steps: Sequence[int]

    def beforehand(self, results: Results) -> None:
        """Raise SpecError as `Foretelling.settings` does, or if `steps` is not a list of iterations."""
        check_steps("steps", self.steps)
        self.settings(results)


@takes(Options)
def build(results: Results, asked: Options, *, name: str = "foretelling") -> list[Figure]:
    """The share of the outcome that is predicted with the known metric alone, and with each of the others beside it."""
    of_rows = asked.settings(results)
    metrics, steps, known = asked.metrics, asked.steps, asked.known
    found = {
        (row, shown, step): asked.foretold(settings, metric, step)
        for row, settings in of_rows.items()
        for shown, metric in metrics.items()
        for step in steps
    }
    few = any(settings.replicates < MIN_JUDGED for settings in of_rows.values())
    tested = holm([one.p if isinstance(one, Foretold) and not few else None for one in found.values()])
    stars = {key: p is not None and p <= ERROR / 2 for key, p in zip(found, tested, strict=True)}
    notes = dict.fromkeys(one for one in found.values() if isinstance(one, str))
    figure = Figure(
        name=name,
        title=results.heading,
        draw=partial(_draw, found, stars, list(of_rows), list(metrics), list(steps), known),
        caption=(
            f"Each setting is predicted from all others. Shown is the share of the outcome's variance between runs "
            f"that {label(known)} at that iteration predicts alone (grey), and together with a metric. Filled: the "
            "metric adds to the prediction; the error is controlled over the whole figure."
            f"{' Left out: ' + '; '.join(notes) + '.' if notes else ''}"
        ),
    )
    for index, (key, one) in enumerate(found.items()):
        row, shown, step = key
        line = {"row": row, "metric": shown, "step": step, "note": one if isinstance(one, str) else ""}
        if isinstance(one, Foretold):
            labels, ends = {"row": row, "metric": shown, "step": step}, {"low": None, "high": None}
            figure.estimates += [
                {**labels, "quantity": "share", "value": one.with_it, **ends, "p": one.p},
                {**labels, "quantity": f"share of {known} alone", "value": one.without, **ends},
            ]
            line |= {"with_it": one.with_it, "without": one.without, "p": one.p, "star": int(stars[key])}
            figure.titles[f"point-{index}"] = (
                f"{row}, {shown} at {step}: {number(one.with_it, 2)} with, {number(one.without, 2)} without, "
                f"p {p_value(one.p)}"
            )
        figure.points.append(line)
    return [figure]


def _draw(
    found: Mapping[Key, Foretold | str],
    stars: Mapping[Key, bool],
    rows: list[str],
    names: list[str],
    steps: list[int],
    known: str,
) -> style.Canvas:
    colours = dict(zip(names, style.PALETTE, strict=False))
    figure = style.canvas(max(5.6, 0.8 + 3.4 * len(rows)), 3.1)
    axes = figure.subplots(1, len(rows), sharey=True, squeeze=False)[0]
    figure.subplots_adjust(left=0.7 / figure.get_figwidth(), right=0.985, top=0.82, bottom=0.15, wspace=0.06)
    entries = [
        (f"{label(known)} alone", style.BASELINE),
        *((shortened(n, 26), colours.get(n, style.INK)) for n in names),
    ]
    style.key_line(figure, entries, 0.95)
    order = {key: index for index, key in enumerate(found)}
    for axis, row in zip(axes, rows, strict=True):
        for shown in names:
            here = {step: one for step in steps if isinstance(one := found[row, shown, step], Foretold)}
            colour = colours.get(shown, style.INK)
            axis.plot(list(here), [one.without for one in here.values()], color=style.BASELINE, linewidth=1.2)
            axis.plot(list(here), [one.with_it for one in here.values()], color=colour, linewidth=1.2)
            for step, one in here.items():
                key = (row, shown, step)
                face = colour if stars[key] else "white"
                axis.plot([step], [one.with_it], "o", mfc=face, mec=colour, ms=4, gid=f"point-{order[key]}")
        style.quiet_grid(axis)
        axis.axhline(0, color="#9a9a9a", linewidth=0.8)
        axis.xaxis.set_major_locator(style.whole_numbers())
        axis.set_title(shortened(label(row), 30))
        axis.set_xlabel("training iteration")
    axes[0].set_ylabel("share predicted")
    return figure
