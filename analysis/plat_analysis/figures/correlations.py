"""Draw Spearman's correlation of several measures with an outcome, between the settings of a sweep and within them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from plat_analysis.artifact import Figure, number, p_value
from plat_analysis.builder_options import takes
from plat_analysis.contrasts.setting_correlations import BETWEEN, GIVEN, WITHIN, Correlating, Shown, shown_correlation
from plat_analysis.data.labels import label
from plat_analysis.data.published import PrintedTable, printed_table
from plat_analysis.data.results import Results
from plat_analysis.figures import style
from plat_analysis.quantities.metric import quantity
from plat_analysis.shown_text import shortened
from plat_analysis.statistics.intervals import MIN_JUDGED
from plat_analysis.statistics.significance import holm

LONGEST_NAME = 32
TITLES = {BETWEEN: "between", GIVEN: "strength aside", WITHIN: "within"}
OUTCOMES = {"peak": "peak success", "final": "success of the last checkpoint", "heldout": "held-out success"}


Key = tuple[str, str, str]  # row, between or within, measure


@takes(Correlating)
def build(
    results: Results, asked: Correlating, *, paper: str | None = None, name: str = "correlations"
) -> list[Figure]:
    """One figure: Spearman's correlation of each measure with the outcome, between settings and within a setting.

    Each row of settings has a panel for each of the two. With `strength`, a third one shows the correlation between
    settings without what strength explains. In a panel, each measure has a dot with its 95 % interval.

    paper       key of the printed table in the paper's file (default: the one that the experiment's `source` names)
    """
    of_rows = asked.settings(results)
    printed, with_ = printed_table(results.experiment, paper), quantity(asked.outcome)
    words = OUTCOMES.get(with_.name, label(with_.name))
    shown: dict[Key, Shown] = {}
    for row, settings in of_rows.items():
        given, families = asked.given(settings), asked.families(settings)
        for proxy, measure in asked.proxies.items():
            pair = settings.pair(quantity(measure), with_)
            for across in (BETWEEN, *([GIVEN] if asked.strength else []), WITHIN):
                shown[row, across, proxy] = shown_correlation(pair, settings, across, given, families)
    p_values = holm([item.p for item in shown.values()])
    shown = {key: replace(item, p=p) for (key, item), p in zip(shown.items(), p_values, strict=True)}
    what = results.experiment.title if with_.name in OUTCOMES else f"{results.experiment.title}: with {words}"
    figure = Figure(
        name=name,
        title=" · ".join(filter(None, [results.experiment.source, what])),
        draw=lambda: _draw(shown, printed, words),
        caption=_caption(shown, printed, words),
    )
    for index, (key, item) in enumerate(shown.items()):
        figure.points.append(_record(key, item, printed))
        found = dict(list(figure.points[-1].items())[len(key) :])
        figure.estimates.append({**dict(zip(("row", "across", "proxy"), key, strict=True)), "quantity": "rho", **found})
        figure.titles[f"correlation-{index}"] = _tooltip(key, item)
    return [figure]


def _published(printed: PrintedTable, key: Key) -> float | None:
    """Return the paper's number, which is over all runs and is shown beside the correlation between settings."""
    row, across, proxy = key
    if across != BETWEEN:
        return None
    return printed.for_row(row, proxy)


def _record(key: Key, item: Shown, printed: PrintedTable) -> dict[str, Any]:
    found, apart = item.found, item.apart
    return {
        **dict(zip(("row", "across", "proxy"), key, strict=True)),
        "value": found and found.rho,
        "low": found and found.low,
        "high": found and found.high,
        "interval_over": "settings" if found else "",
        "p": found and (apart or found).p,
        "p_corrected": item.p,
        "star": item.star,
        "settings": found.settings if found else None,
        "runs": len(item.pair.run_ids),
        "runs_wanted": item.pair.x.size,
        "different_runs": apart and apart.rho,
        "different_runs_low": apart and apart.low,
        "different_runs_high": apart and apart.high,
        "same_runs_p": found and found.p,
        "over_runs": item.pooled,
        "paper": _published(printed, key),
        "run_ids": " ".join(item.pair.run_ids),
        "note": item.note,
    }


def _tooltip(key: Key, item: Shown) -> str:
    row, across, proxy = key
    found = item.found
    place = " · ".join(filter(None, [row, across, proxy]))
    if found is None:
        return f"{place}: {item.note}"
    corrected = f", corrected {p_value(item.p)}" if item.p is not None else ""
    parts = [
        f"{place}: {number(found.rho, 2, True)}",
        f"95 % interval over settings [{number(found.low, 2, True)}, {number(found.high, 2, True)}]",
        f"p {p_value((item.apart or found).p)}{corrected}",
        f"{found.settings} settings, {len(item.pair.run_ids)} runs",
        item.note,
        "runs " + " ".join(item.pair.run_ids),
    ]
    return " · ".join(filter(None, parts))


def _caption(shown: Mapping[Key, Shown], printed: PrintedTable, outcome: str) -> str:
    found = [item.found for item in shown.values() if item.found]
    counts = sorted({one.settings for one in found})
    settings = f"{counts[0]} to {counts[-1]}" if len(counts) > 1 else f"{counts[0]}" if counts else "no"
    judged = sum(item.p is not None for item in shown.values())
    lines = [
        f"Spearman's correlation with {outcome} over {settings} settings. Between settings: the correlation of means",
        "over seeds, in each build of the base model. Within a setting: the correlation of runs, after the means of",
        "their setting and of their seed are subtracted. 95 % intervals over settings.",
        "Dark: it is shown that it is not zero, between settings within families of settings and with measure and "
        f"outcome of different runs; the error over all {judged} is controlled at 5 % (Holm)."
        if judged
        else f"No correlation is judged: this needs {MIN_JUDGED} runs in each setting, and no missing run.",
        "Hollow: published, over runs that the paper does not list."
        if any(_published(printed, key) is not None for key in shown)
        else "",
    ]
    return " ".join(filter(None, lines))


def _draw(shown: Mapping[Key, Shown], printed: PrintedTable, outcome: str) -> style.Canvas:
    panels, proxies = list(dict.fromkeys(key[:2] for key in shown)), list(dict.fromkeys(key[2] for key in shown))
    height = 1.05 + 0.26 * len(proxies)
    figure = style.canvas(10.5, height)
    axes = figure.subplots(1, len(panels), sharex=True, sharey=True, squeeze=False)[0]
    figure.subplots_adjust(left=0.17, right=0.99, top=1 - 0.66 / height, bottom=0.4 / height, wspace=0.07)
    entries = [("● measured, 95 % interval", style.INK)]
    published = [("◇ published", style.PUBLISHED)] if any(_published(printed, key) is not None for key in shown) else []
    style.key_line(figure, [*entries, *published], 1 - 0.14 / height)
    order = list(shown)
    for axis, (row, across) in zip(axes, panels, strict=True):
        axis.axvline(0, color="#9a9a9a", linewidth=0.8, zorder=1)
        style.quiet_grid(axis, "x")
        first = across == panels[0][1]  # only a row's first panel has its name
        axis.set_title(f"{shortened(label(row), 26) if first else ''}\n{TITLES[across]}", fontsize=8)
        axis.tick_params(axis="y", length=0)
        axis.spines["left"].set_visible(False)
        for y, proxy in enumerate(proxies):
            key = (row, across, proxy)
            item, gid = shown[key], f"correlation-{order.index(key)}"
            if item.found is None:
                style.absent_dot(axis, y, item.note)
            else:
                style.interval_dot(axis, y, item.found.rho, (item.found.low, item.found.high), item.star, gid)
            if (paper := _published(printed, key)) is not None:
                axis.plot(paper, y + 0.27, "D", mfc="white", mec=style.PUBLISHED, mew=1.0, ms=3.6, zorder=5)
    names = [shortened(proxy, LONGEST_NAME) for proxy in proxies]
    axes[0].set_yticks(range(len(proxies)), names, color=style.INK, fontsize=8)
    axes[0].set_ylim(len(proxies) - 0.4, -0.6)
    axes[0].set_xlim(-1.05, 1.05)
    axes[0].set_xticks([-0.5, 0, 0.5], ["−.5", "0", ".5"])
    axes[len(axes) // 2].set_xlabel(f"Spearman's correlation with {outcome}")
    return figure
