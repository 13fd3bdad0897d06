"""Draw the filter's gain in each setting over a signal known before training (Table 8), and test a rule.

The rule is to use the filter where the signal is at least a threshold; it is compared with always using it.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np

from plat_analysis.artifact import Figure, number, p_value, provenance, record
from plat_analysis.builder_options import takes
from plat_analysis.data.labels import label, measure_label
from plat_analysis.data.published import PrintedTable, printed_table
from plat_analysis.data.results import Results
from plat_analysis.figures import style
from plat_analysis.quantities.metric import quantity
from plat_analysis.quantities.quantity import Quantity
from plat_analysis.shown_text import shortened
from plat_analysis.statistics.correlation import between
from plat_analysis.statistics.leads import foretell
from plat_ragen2.precheck_estimates import Gaining, Setting, arrays, measured

SIGNAL, GAIN = "signal", "gain"
ONE = "Settings that share a base model and a task have the same signal, and count as one start."


@takes(Gaining)
def build(
    results: Results,
    asked: Gaining,
    *,
    signal: Any,
    threshold: float = 1.0,
    rivals: Mapping[str, Any] | None = None,
    paper: str | None = None,
    name: str = "precheck",
) -> list[Figure]:
    """A dot for each setting: the mean signal of its runs without the treatment, and what the treatment changes.

    signal     what is measured before training, e.g. {metric: rollout/rv_std_over_mean, at: 1}
    threshold  of the rule: the treatment is predicted to help where the signal is at least that
    rivals     name -> another predictor; the caption says what the signal adds to each
    paper      key of the printed table of signals and gains (default: the one that `source` names, if any)
    """
    sides = asked.sides(results)
    of, gained = quantity(signal), quantity(asked.outcome)
    signals = {SIGNAL: of, **{rival: quantity(measure) for rival, measure in (rivals or {}).items()}}
    found, printed = measured(sides, signals, gained), printed_table(results.experiment, paper)
    lines = _starts(found, list(signals))
    figure = Figure(
        name=name,
        title=results.heading,
        estimates=[*lines, *(record(one.gain, setting=setting, quantity="gain") for setting, one in found.items())],
        draw=partial(_draw, found, of, gained, threshold, printed),
        caption=" ".join([_correlations(found, lines), ONE, _rule(found, threshold)]),
    )
    for index, (setting, one) in enumerate(found.items()):
        figure.points.append(
            {**record(one.gain, setting=setting), "signal": one.signals[SIGNAL].value, **_published(printed, setting)}
        )
        shown = number(one.signals[SIGNAL].value, 2), number(one.gain.value, 1, True)
        figure.titles[f"point-{index}"] = f"{setting}: {shown[0]}, {shown[1]} · {provenance(one.gain)}"
    return [figure]


def _published(printed: PrintedTable, setting: str) -> dict[str, float | None]:
    return {"paper_signal": printed.number(setting, SIGNAL), "paper_gain": printed.number(setting, GAIN)}


def _starts(found: Mapping[str, Setting], names: list[str]) -> list[dict[str, Any]]:
    """Return the correlation of each signal with the gain over starts, and what the first adds to each other one."""
    values = arrays(found)
    if values is None:
        return []
    lines = []
    for index, name in enumerate(names):
        rank = between(values[index], values[-1])
        ends = {"low": rank.low, "high": rank.high, "p": rank.p, "settings": rank.settings}
        lines.append({"signal": name, "quantity": "rho", "value": rank.rho, **ends})
    for index, name in enumerate(names[1:], 1) if not np.isnan(values).any() else ():
        more = foretell(values[0], values[index], values[-1])
        shares = (("share beside the signal", more.with_it, more.p), ("share alone", more.without, None))
        none = {"low": None, "high": None}
        lines += [{"signal": name, "quantity": what, "value": value, **none, "p": p} for what, value, p in shares]
    return lines


def _correlations(found: Mapping[str, Setting], lines: list[dict[str, Any]]) -> str:
    """Return the caption's part on how each signal correlates with the gain, and what the first adds to the others."""
    if not lines:
        enough = sum(one.judged for one in found.values())
        return f"Nothing is judged: {enough} of {len(found)} settings have all of their runs."
    ranks = [line for line in lines if line["quantity"] == "rho"]
    said = [
        f"{line['signal']} {number(line['value'], 2, True)} [{number(line['low'], 2, True)}, "
        f"{number(line['high'], 2, True)}], p {p_value(line['p'])}"
        for line in ranks
    ]
    text = f"Spearman with the gain over {ranks[0]['settings']} starts: {'; '.join(said)}."
    rest = lines[len(ranks) :]
    for beside, alone in zip(rest[::2], rest[1::2], strict=True):
        text += (
            f" For a start left out, {beside['signal']} and the signal predict {number(beside['value'], 2)} of the "
            f"gain, and {alone['signal']} alone predicts {number(alone['value'], 2)}, p {p_value(beside['p'])}."
        )
    return text


def _rule(found: Mapping[str, Setting], threshold: float) -> str:
    """Return how often the rule predicts the gain's sign, beside always using the treatment."""
    known = [
        (signal >= threshold, gain > 0)
        for one in found.values()
        if (signal := one.signals[SIGNAL].value) is not None and (gain := one.gain.value) is not None
    ]
    right, always = sum(told == helped for told, helped in known), sum(helped for _, helped in known)
    return (
        f"The rule predicts a gain if the signal is at least {threshold:g}. It is right in {right} of {len(known)} "
        f"settings. To predict a gain in all settings is right in {always}, and to predict none in any setting is "
        f"right in {len(known) - always}."
    )


def _draw(
    found: Mapping[str, Setting], of: Quantity, gained: Quantity, threshold: float, printed: PrintedTable
) -> style.Canvas:
    figure = style.canvas(5.6, 3.8)
    axis = figure.subplots()
    figure.subplots_adjust(left=0.12, right=0.985, top=0.9, bottom=0.13)
    style.key_line(
        figure, [("settings", style.PALETTE[0]), *([("◇ published", style.PUBLISHED)] if printed else [])], 0.96
    )
    for index, one in enumerate(found.values()):
        x, gain = one.signals[SIGNAL].value, one.gain
        if x is None or gain.value is None:
            continue
        if gain.low is not None and gain.high is not None:
            axis.plot([x, x], [gain.low, gain.high], color=style.PALETTE[0], linewidth=0.7, alpha=0.5)
        axis.plot([x], [gain.value], "o", color=style.PALETTE[0], ms=4, mec="white", mew=0.5, gid=f"point-{index}")
    for setting in found:
        numbers = _published(printed, setting)
        if numbers["paper_signal"] is not None and numbers["paper_gain"] is not None:
            axis.plot([numbers["paper_signal"]], [numbers["paper_gain"]], "D", mfc="none", mec=style.PUBLISHED, ms=5)
            axis.annotate(
                shortened(setting, 24), (numbers["paper_signal"], numbers["paper_gain"]), (5, 3),
                textcoords="offset points", fontsize=6, color=style.PUBLISHED,
            )  # fmt: skip
    axis.axhline(0, color="#9a9a9a", linewidth=0.8)
    axis.axvline(threshold, color=style.QUIET, linewidth=0.8, linestyle=":")
    style.quiet_grid(axis)
    axis.set_xlabel(label(of.name))
    axis.set_ylabel(f"change of {measure_label(gained.name)}{', points' if gained.factor != 1 else ''}")
    return figure
