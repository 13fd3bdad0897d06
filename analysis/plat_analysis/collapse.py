"""The loss of input dependence, and what the filter does to it: one figure over training, and two tables of its end.

"Start" is the first measurement of a run, "end" the mean of its last `last` measurements. A run that was stopped early,
or has fewer measurements than that, has no end that compares with the others': it is shown, and left out of the
differences and of the counts of regimes.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from math import log
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from plat_analysis import curves
from plat_analysis.artifact import DASH, Cell, Column, Figure, Note, Row, Table, interval, number, provenance, record
from plat_analysis.collapse_figure import draw
from plat_analysis.curves import Bundle, bundle
from plat_analysis.labels import label, model_really
from plat_analysis.regimes import NOISE, Thresholds, regime
from plat_analysis.results import Results, RunView, spell
from plat_analysis.statistics import Estimate, over_seeds

if TYPE_CHECKING:
    from plat.spec.experiment import Experiment
    from plat.store.reader import Frames

# quantity -> (metric below the scope or in full, name in print, digits)
QUANTITIES = {
    "above_chance": ("{scope}/retrieval_above_chance", "retrieval accuracy above chance", 2),
    "entropy": ("{scope}/h_z_given_x", "H(Z|X), nats per token", 2),
    "actor_entropy": ("actor/entropy", "policy entropy, nats per token", 2),
    "success": ("val/success", "validation success", 2),
    "parses": ("rollout/reasoning_parses", "reasonings that parse", 2),
}
DECIDING = ("above_chance", "entropy", "parses")  # what a regime is told by


def build(
    frames: Frames,
    experiment: Experiment,
    *,
    pair: str = "filter",
    baseline: Any = "none",
    treatment: Any = None,
    scope: Literal["first_turn", "trajectory"] = "first_turn",
    last: int = 3,
    thresholds: Mapping[str, float] | None = None,
    name: str = "collapse",
) -> list[Figure | Table]:
    """pair, baseline, treatment: the axis and its values that are compared (default: its first other value); scope: of
    the mutual-information proxies; thresholds: of the regimes (see `regimes.Thresholds`)."""
    results = Results(frames, experiment)
    baseline = spell(baseline)
    conditions: dict[str, list[RunView]] = {}
    for run in results.positions:
        conditions.setdefault(run.axis(pair), []).append(run)
    others = [condition for condition in conditions if condition != baseline]
    treatment = spell(treatment) if treatment is not None else next(iter(others), baseline)
    limits = Thresholds(**(thresholds or {}))
    ends = {run.id: _ends(results, run, scope, last) for run in results.runs}
    short = {run.id: _short(results, run, ends[run.id], scope, last) for run in results.runs}
    order = [c for c in (baseline, *others) if c in conditions]
    panels = {
        (key, condition): _bundle(results, conditions[condition], key, scope)
        for key in ("retrieval", *QUANTITIES)
        if key != "above_chance"
        for condition in order
    }
    chances = {c: results.curve(r.id, f"mi/{scope}/retrieval_chance")[1] for c in order for r in conditions[c]}
    chance = next((float(values[-1]) for values in chances.values() if len(values)), None)
    vocabulary = next((v for run in results.runs if (v := run.number_tag("plat.summary.vocabulary"))), None)
    figure = Figure(
        name=name,
        title="Input dependence over training",
        draw=partial(draw, panels, order, baseline, chance, log(vocabulary) if vocabulary else None, limits),
        caption=(
            "Retrieval accuracy: how often a reasoning is likeliest under its own prompt. It falls to chance when "
            "reasoning no longer depends on the input; entropy does not show that. Bold: mean over seeds; thin: single "
            "seeds. Band, 95 %: over seeds, from three on; of one seed's success over the validation instances. "
            "×: the run ended early."
        ),
    )
    for (key, condition), found in panels.items():
        figure.points += curves.points(found, quantity=key, condition=condition)
    runs = _runs_table(results, conditions, order, ends, short, limits, last, name + "_regimes")
    whole = {run: {q: end for q, end in found.items() if q not in short[run]} for run, found in ends.items()}
    differences = _differences(conditions, whole, short, baseline, treatment, last, name + "_differences")
    return [figure, runs, differences]


BUILDER = build


def _bundle(results: Results, runs: list[RunView], key: str, scope: str) -> Bundle:
    metric = f"mi/{scope}/retrieval_acc" if key == "retrieval" else _metric(key, scope)
    return bundle(results, runs, metric)


def _metric(quantity: str, scope: str) -> str:
    return QUANTITIES[quantity][0].format(scope=f"mi/{scope}")


def _ends(results: Results, run: RunView, scope: str, last: int) -> dict[str, tuple[float, float]]:
    """Quantity -> (start, end) of one run; quantities that were not measured are left out."""
    found = {}
    for quantity in QUANTITIES:
        _, values = results.curve(run.id, _metric(quantity, scope))
        if quantity == "above_chance" and not len(values):  # from its parts, where only they were logged
            steps, accuracy = results.curve(run.id, f"mi/{scope}/retrieval_acc")
            at, chance = results.curve(run.id, f"mi/{scope}/retrieval_chance")
            if len(steps) and np.array_equal(steps, at):
                values = accuracy - chance
        if len(values):
            found[quantity] = (float(values[0]), float(np.mean(values[-last:])))
    return found


def _short(results: Results, run: RunView, ends: Mapping[str, Any], scope: str, last: int) -> dict[str, str]:
    """Quantity -> why its end does not compare with that of a run that went on; quantities that do are left out."""
    found = {}
    outcome = run.outcome or ""
    if outcome.startswith("stopped"):
        logged = [results.curve(run.id, _metric(quantity, scope))[0] for quantity in QUANTITIES]
        at = max((int(steps[-1]) for steps in logged if len(steps)), default=None)
        outcome += f" at step {at}" if at is not None else ""
    for quantity in ends:
        metric = f"mi/{scope}/retrieval_acc" if quantity == "above_chance" else _metric(quantity, scope)
        count = len(results.curve(run.id, metric)[0])
        few = f"{count} measurement{'s' * (count != 1)}" if count < last else ""
        if few or outcome.startswith("stopped"):
            found[quantity] = ", ".join(filter(None, [outcome if outcome.startswith("stopped") else "", few]))
    return found


def _runs_table(
    results: Results,
    conditions: dict[str, list[RunView]],
    order: list[str],
    ends: dict[str, dict[str, tuple[float, float]]],
    short: dict[str, dict[str, str]],
    limits: Thresholds,
    last: int,
    name: str,
) -> Table:
    shown = [
        ("above_chance", "retrieval − chance"),
        ("entropy", "H(Z|X)"),
        ("parses", "parses"),
        ("success", "success"),
    ]
    pairs = [Column(title, group) for _, group in shown for title in ("start", "end")]
    pairs.insert(4, Column("÷ ln V", "H(Z|X)"))
    table = Table(
        name=name,
        title="The regime each run ended in",
        columns=[Column("", numeric=False), Column("seed"), *pairs, Column("regime", numeric=False)],
        rows=[],
        caption=f"Start: first measurement; end: mean of the last {last} measurements.",
        notes=[Note(f"Thresholds — {limits}.")],
    )
    model = model_really(results.runs)
    if model:
        table.notes.append(Note(f"Model that really ran: {model}."))
    counts: dict[str, dict[str, int]] = {}
    for condition in order:
        for index, run in enumerate(conditions[condition]):
            end = ends[run.id]
            vocabulary = run.number_tag("plat.summary.vocabulary")
            log_v = log(vocabulary) if vocabulary else None
            final = {quantity: both[1] for quantity, both in end.items()}
            entropy = final.get("entropy")
            first = end["entropy"][0] if "entropy" in end else None
            found = regime(final.get("above_chance"), entropy, final.get("parses"), log_v, first, limits)
            early = next((short[run.id][q] for q in DECIDING if q in short[run.id]), "")
            missing = run.missing or early
            verdict = missing or found
            if verdict == NOISE and entropy is not None and log_v:
                verdict += f": {limits.noise(entropy / log_v, final['parses'])}"
            title = f"run {run.id} {run.run.name} · {run.outcome or run.missing}"
            stub = [Cell(label(condition) if index == 0 else "", tone="strong"), Cell(str(run.seed), title=title)]
            share = entropy / log_v if entropy is not None and log_v else None
            values = [
                Cell(number(end[q][i], QUANTITIES[q][2]) if q in end else DASH, title=title)
                for q, _ in shown
                for i in (0, 1)
            ]
            values.insert(4, Cell(number(share, 2), title=title))
            cells = [*stub, *values, Cell(verdict, tone="missing" if missing else "strong")]
            table.rows.append(Row(tuple(cells), rule=index == 0))
            table.records.append(
                {"condition": condition, "seed": run.seed, "run_id": run.id, "outcome": run.outcome or run.missing}
                | {f"{q}_{when}": end[q][i] for q in QUANTITIES if q in end for i, when in enumerate(("start", "end"))}
                | {"entropy_share_of_ln_v": share, "regime": "" if early else found, "left_out": missing}
            )
            if not missing:
                counts.setdefault(condition, {})[found] = counts.setdefault(condition, {}).get(found, 0) + 1
    for condition, kinds in counts.items():
        told = ", ".join(f"{kind} {n}/{len(conditions[condition])}" for kind, n in kinds.items())
        table.notes.append(Note(f"{label(condition)}: {told}."))
        table.values |= {f"{name}/{condition}/{kind}": float(n) for kind, n in kinds.items()}
    return table


def _differences(
    conditions: dict[str, list[RunView]],
    ends: dict[str, dict[str, tuple[float, float]]],
    short: Mapping[str, Mapping[str, str]],
    baseline: str,
    treatment: str,
    last: int,
    name: str,
) -> Table:
    """Change from start to end in each condition, and the paired difference of the ends, with intervals over seeds."""
    table = Table(
        name=name,
        title=f"What {label(treatment)} changes by the end of training",
        columns=[
            Column("", numeric=False),
            *[Column(title, label(baseline)) for title in ("end − start", "95 %")],
            *[Column(title, label(treatment)) for title in ("end − start", "95 %")],
            *[Column(title, "difference of the ends") for title in ("value", "95 %")],
            Column("seeds"),
        ],
        rows=[],
        caption=f"Means over seeds; the difference is {label(treatment)} minus {label(baseline)}, paired by seed.",
        notes=[Note(f"Intervals: Student's t over seeds. End: mean of the last {last} measurements.")],
    )
    missing: dict[str, list[str]] = {}
    first = {run.seed: run for run in conditions.get(baseline, [])}
    second = {run.seed: run for run in conditions.get(treatment, [])}
    for quantity, (_, title, digits) in QUANTITIES.items():
        falls = _change(first, ends, quantity)
        falls_treated = _change(second, ends, quantity)
        pairs = {
            seed: ends[second[seed].id][quantity][1] - ends[first[seed].id][quantity][1]
            for seed in first
            if seed in second and _counts(first[seed], ends, quantity) and _counts(second[seed], ends, quantity)
        }
        absent = {
            f"{run.run.name}: {run.missing or short[run.id].get(quantity) or 'not measured'}"
            for run in [*first.values(), *second.values()]
            if not _counts(run, ends, quantity)
        }
        ids = tuple(run.id for seed in pairs for run in (first[seed], second[seed]))
        gap = over_seeds(
            list(pairs.values()), wanted=len(set(first) | set(second)), run_ids=ids, note="; ".join(sorted(absent))
        )
        cells = [Cell(title, tone="strong")]
        for estimate in (falls, falls_treated, gap):
            cells += _shown(estimate, digits)
        seeds_tone = "dim" if gap.complete else "missing"
        cells.append(Cell(f"{gap.seeds}/{gap.wanted}", tone=seeds_tone, title=provenance(gap)))
        table.rows.append(Row(tuple(cells)))
        for what, estimate in (("change", falls), ("change_treated", falls_treated), ("difference", gap)):
            table.records.append(record(estimate, quantity=quantity, what=what))
            if estimate.value is not None:
                table.values[f"{name}/{quantity}/{what}"] = estimate.value
        if absent:
            missing.setdefault("; ".join(sorted(absent)), []).append(title)
    for why, titles in missing.items():
        about = "" if len(titles) == len(QUANTITIES) else f" ({', '.join(titles)})"
        table.notes.append(Note(f"Left out{about}: {why}."))
    return table


def _counts(run: RunView, ends: Mapping[str, Any], quantity: str) -> bool:
    return not run.missing and quantity in ends[run.id]


def _change(runs: dict[Any, RunView], ends: Mapping[str, Any], quantity: str) -> Estimate:
    have = {seed: run for seed, run in runs.items() if _counts(run, ends, quantity)}
    values = [ends[run.id][quantity][1] - ends[run.id][quantity][0] for run in have.values()]
    return over_seeds(values, wanted=len(runs), run_ids=tuple(run.id for run in have.values()))


def _shown(estimate: Estimate, digits: int) -> list[Cell]:
    tone = "missing" if estimate.value is None else "strong" if estimate.sign else ""
    bounds = interval(estimate, digits, signed=True) or (
        "one seed" if estimate.seeds == 1 else estimate.note and "missing"
    )
    title = provenance(estimate)
    return [
        Cell(number(estimate.value, digits, signed=True), tone=tone, title=title),
        Cell(bounds, tone="dim", title=title),
    ]
