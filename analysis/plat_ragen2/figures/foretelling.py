"""Draw what signals foretell: the outcome of a setting during training, and a filter's gain before it (Table 8).

The first figure says how early, and how much, metrics predict the outcome of a setting beyond success. Each setting is
predicted from the runs of all others (`statistics.leads`). A filled dot adds something, with the error held over the
figure (Holm).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from plat_analysis.artifact import Figure, number, p_value, provenance, record
from plat_analysis.builder_options import takes
from plat_analysis.contrasts.foretelling import Foretelling, check_steps
from plat_analysis.data.labels import label, measure_label
from plat_analysis.data.published import PrintedTable, printed_table
from plat_analysis.data.results import Results
from plat_analysis.figures import style
from plat_analysis.quantities.metric import quantity
from plat_analysis.quantities.quantity import Quantity
from plat_analysis.shown_text import shortened
from plat_analysis.statistics.correlation import between
from plat_analysis.statistics.intervals import MIN_JUDGED
from plat_analysis.statistics.leads import Foretold, foretell
from plat_analysis.statistics.significance import ERROR, holm
from plat_ragen2.precheck_estimates import Gaining, Setting, measured, starts

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
    metrics, steps, known = asked.metrics, asked.steps, " and ".join(map(label, asked.all_known))
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
                {**labels, "quantity": f"share of {' and '.join(asked.all_known)} alone", "value": one.without, **ends},
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
        (shortened(f"{known} alone", 40), style.BASELINE),
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


# Draw the filter's gain in each setting over a signal known before training (Table 8), and test a rule.
#
# The rule is to use the filter where the signal is at least a threshold; it is compared with always using it.

SIGNAL, GAIN = "signal", "gain"
ONE = "Settings that share a base model and a task have the same signal, and count as one start."


@takes(Gaining)
def build_precheck(
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
    found, printed = measured(sides, signals, gained, asked.families(sides)), printed_table(results.experiment, paper)
    lines = _starts(found, list(signals))
    figure = Figure(
        name=name,
        title=results.heading,
        estimates=[*lines, *(record(one.gain, setting=setting, quantity="gain") for setting, one in found.items())],
        draw=partial(_draw_gains, found, of, gained, threshold, printed),
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
    kept = starts(found)
    if kept is None:
        return []
    values, families = kept
    lines = []
    for index, name in enumerate(names):
        rank = between(values[index], values[-1], families=families)
        ends = {"low": rank.low, "high": rank.high, "p": rank.p, "settings": rank.settings}
        lines.append({"signal": name, "quantity": "rho", "value": rank.rho, **ends})
    for index, name in enumerate(names[1:], 1) if not np.isnan(values).any() else ():
        more = foretell(values[0], values[index], values[-1], families=families)
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
    text = (
        f"Spearman with the gain over {ranks[0]['settings']} starts, against the mean of a start's family and permuted "
        f"within it (by default the task): {'; '.join(said)}."
    )
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


def _draw_gains(
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
