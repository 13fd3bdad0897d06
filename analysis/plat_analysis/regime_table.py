"""The table of regimes: what each run ended in, the measurements that decide it, and success and moves beside them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from math import log

from plat.outcomes import is_stopped
from plat_analysis.artifact import DASH, Cell, Column, Note, Row, Table, number
from plat_analysis.labels import label, model_that_ran
from plat_analysis.probe import Behaviour, Probe, behaviours, early_behaviour, early_probe, probes
from plat_analysis.regimes import UNKNOWN, Regime, Thresholds, regime
from plat_analysis.replicates import Replicate
from plat_analysis.results import VALIDATION_SUCCESS, Results, RunView
from plat_analysis.scores import fall_after_peak, peak_score

COLUMNS = [
    Column("", numeric=False),
    Column("seed"),
    Column("early", "retrieval"),
    Column("final", "retrieval"),
    Column("early", "H(Z|X)"),
    Column("final", "H(Z|X)"),
    Column("÷ ln V", "H(Z|X)"),
    Column("final", "fluent"),
    Column("early", "moves per turn"),
    Column("final", "moves per turn"),
    Column("early", "success"),
    Column("peak", "success"),
    Column("final", "success"),
    Column("regime", numeric=False),
]


@dataclass(frozen=True)
class RunRegime:
    """A run, what was measured of it early and at its end, and the regime that follows."""

    run: RunView
    early: Probe | None
    final: Probe | None
    early_behaviour: Behaviour | None
    final_behaviour: Behaviour | None
    log_vocabulary: float | None
    regime: Regime


def run_regime(results: Results, run: RunView, limits: Thresholds) -> RunRegime:
    """The regime of one run, from its final checkpoint."""
    all_probes, evaluations = probes(results, run), behaviours(results, run)
    vocabulary = run.number_tag("plat.summary.vocabulary")
    log_vocabulary = log(vocabulary) if vocabulary and vocabulary > 1 else None
    early, final = early_probe(all_probes), all_probes[-1] if all_probes else None
    before, after = early_behaviour(evaluations), evaluations[-1] if evaluations else None
    last = results.last_step(run.id)
    if run.missing:
        kind = Regime(UNKNOWN, run.missing)
    elif final is not None and last is not None and final.step < last:
        kind = Regime(UNKNOWN, f"the last probe is of step {final.step}, the run ended at step {last}")
    else:
        kind = regime(early, final, before, after, log_vocabulary, limits)
    return RunRegime(run, early, final, before, after, log_vocabulary, kind)


def regime_table(
    results: Results, conditions: Mapping[str, Mapping[Replicate, RunView]], limits: Thresholds, name: str
) -> Table:
    """One line for each run, by condition; `values` count the regimes of each condition."""
    table = Table(
        name=name,
        title="The regime each run ended in",
        columns=COLUMNS,
        rows=[],
        caption=(
            "Fresh reasonings from the checkpoints: early, the first two evaluations; final, the last one. Success is "
            "that of the validation instances."
        ),
        notes=[Note(f"The rule: {limits}.")],
    )
    model = model_that_ran(results.runs)
    if model:
        table.notes.append(Note(f"Model that really ran: {model}."))
    untrained = [
        float(values[0]) for run in results.runs if len(values := results.curve(run.id, "probe/retrieval_untrained")[1])
    ]
    if untrained:
        table.notes.append(
            Note(
                "Retrieval accuracy of untrained models of the same shape, for comparison: "
                f"{sum(untrained) / len(untrained):.2f}."
            )
        )
    for condition, runs in conditions.items():
        judged = [run_regime(results, run, limits) for run in runs.values()]
        for index, item in enumerate(judged):
            _add(table, results, condition, item, first=index == 0)
        counts = Counter(item.regime.name for item in judged if not item.run.missing)
        if counts:
            shown = ", ".join(f"{kind} {count}/{len(judged)}" for kind, count in sorted(counts.items()))
            table.notes.append(Note(f"{label(condition)}: {shown}."))
        table.values |= {f"{name}/{condition}/{kind}": float(count) for kind, count in counts.items()}
    return table


def _add(table: Table, results: Results, condition: str, item: RunRegime, first: bool) -> None:
    run = item.run
    numbers = _numbers(results, item)
    fall = fall_after_peak(results, run) if not run.missing else None
    title = f"run {run.id} {run.run.name} · {run.outcome or run.missing}" + (f" · {fall}" if fall else "")
    cells = [Cell(label(condition) if first else "", tone="strong"), Cell(str(run.seed), title=title)]
    for quantity, value in numbers.items():
        arrow = "↓" if fall and quantity == "success_final" else ""
        cells.append(Cell(arrow + number(value, 2) if value is not None else DASH, title=title))
    stopped = f" ({run.outcome})" if is_stopped(run.outcome) else ""
    shown = run.missing or f"{item.regime}{stopped}"
    cells.append(Cell(shown, tone="missing" if run.missing or item.regime.name == UNKNOWN else "strong", title=title))
    table.rows.append(Row(tuple(cells), rule=first))
    table.records.append(
        {
            "condition": condition,
            "seed": run.seed,
            "run_id": run.id,
            "outcome": run.outcome or run.missing,
            **numbers,
            "reasonings": item.final.reasonings if item.final else None,
            "regime": "" if run.missing else item.regime.name,
            "reason": item.regime.reason,
            "fell_after_peak": str(fall) if fall else "",
        }
    )


def _numbers(results: Results, item: RunRegime) -> dict[str, float | None]:
    """The numbers of a run's row, in the order of COLUMNS."""
    early, final, before, after = item.early, item.final, item.early_behaviour, item.final_behaviour
    _, success = results.curve(item.run.id, VALIDATION_SUCCESS)
    peak = peak_score(results, item.run)
    entropy = final.mean_entropy if final else None
    return {
        "retrieval_early": float(early.retrieval.mean()) if early else None,
        "retrieval_final": float(final.retrieval.mean()) if final else None,
        "entropy_early": early.mean_entropy if early else None,
        "entropy_final": entropy,
        "entropy_share_of_ln_v": entropy / item.log_vocabulary if entropy is not None and item.log_vocabulary else None,
        "fluent_final": float(final.fluent.mean()) if final else None,
        "moves_early": float(before.moves_per_turn.mean()) if before else None,
        "moves_final": float(after.moves_per_turn.mean()) if after else None,
        "success_early": float(success[0]) if len(success) else None,
        "success_peak": peak.value if peak else None,
        "success_final": float(success[-1]) if len(success) else None,
    }
