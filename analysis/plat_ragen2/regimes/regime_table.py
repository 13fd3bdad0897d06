"""Tabulate the regime of each run, the measurements that decide it, and success and moves."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from math import log

from plat.words.metric_names import SUCCESS
from plat.words.outcomes import is_stopped
from plat_analysis.artifact import DASH, Cell, Column, Marks, Note, Row, Table, Tone, number
from plat_analysis.data.labels import label, model_that_ran
from plat_analysis.data.results import Results, RunView
from plat_analysis.quantities.quantity import fall_after_peak, peak_score
from plat_analysis.statistics.replicates import Replicate
from plat_ragen2.regimes.probe_tables import Behaviour, Probe, behaviours, early_probes, probes
from plat_ragen2.regimes.regime import NEVER, UNKNOWN, Regime, Thresholds, regime

COLUMNS = [
    Column("seed"),
    Column("regime", numeric=False),
    Column("start", "retrieval"),
    Column("high", "retrieval"),
    Column("end", "retrieval"),
    Column("start", "moves/turn"),
    Column("end", "moves/turn"),
    Column("start", "success"),
    Column("end", "success"),
]
ABOVE_CHANCE = 0.005  # half of a retrieval's last shown digit
SHOWN = ("retrieval_start", "retrieval_high", "retrieval_end", "moves_start", "moves_end", "success_start")


@dataclass(frozen=True)
class RunRegime:
    """Hold a run, its early and final measurements, and its regime."""

    run: RunView
    early: list[Probe]
    final: Probe | None
    start_behaviour: Behaviour | None
    final_behaviour: Behaviour | None
    log_vocabulary: float | None
    regime: Regime

    @property
    def high(self) -> Probe | None:
        """The early probe with the highest mean retrieval, the first of equal ones; None without early probes."""
        return max(self.early, key=lambda probe: float(probe.retrieval.mean()), default=None)


def run_regime(results: Results, run: RunView, limits: Thresholds) -> RunRegime:
    """Return the regime of one run with what decides it.

    Beside the cases of `regime`, it is `unknown` if the run has no result, or its last probe precedes its last
    evaluation.
    """
    all_probes, evaluations = probes(results, run), behaviours(results, run)
    vocabulary = run.number_tag("plat.summary.vocabulary")
    log_vocabulary = log(vocabulary) if vocabulary and vocabulary > 1 else None
    early, final = early_probes(all_probes), all_probes[-1] if all_probes else None
    before, after = (evaluations[0], evaluations[-1]) if evaluations else (None, None)
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
    """Return one line for each run, by condition, with its build where several occur; `values` count regimes."""
    with_builds = len({run.build for runs in conditions.values() for run in runs.values()}) > 1
    table = Table(
        name=name,
        title="The regime each run ended in",
        columns=[Column("build"), *COLUMNS] if with_builds else COLUMNS,
        rows=[],
        caption=(
            "Retrieval of fresh reasonings: before training (start); the highest value in the first half, with its "
            "step, if this is not the start (high); and at the last checkpoint (end). Moves and success are measured "
            "on the validation instances."
        ),
        notes=[Note(f"The rule: {limits}.")],
    )
    table.notes += [Note(text) for text in _comparisons(results)]
    marks = Marks()
    for condition, runs in conditions.items():
        judged = [run_regime(results, run, limits) for run in runs.values()]
        for index, item in enumerate(judged):
            _add(table, results, condition, item, marks, with_builds, first=index == 0)
        counts = Counter(item.regime.name for item in judged if not item.run.missing)
        if counts:
            shown = ", ".join(f"{kind} {count}/{len(judged)}" for kind, count in sorted(counts.items()))
            table.notes.append(Note(f"{label(condition)}: {shown}."))
        table.values |= {f"{name}/{condition}/{kind}": float(count) for kind, count in counts.items()}
        table.notes += [Note(text) for text in _entropy(condition, judged, with_builds)]
    table.notes += [Note(text) for text in _falls(results, conditions, with_builds)]
    table.notes = marks.notes() + table.notes
    return table


def _comparisons(results: Results) -> list[str]:
    """Return the notes on chance, an untrained model, and the model that ran."""
    texts = []
    text, chance = chance_of_probes(results)
    if text:
        texts.append(f"Chance: a retrieval of {text}, that of reasonings that do not depend on their prompt.")
    untrained = [
        float(values[0]) for run in results.runs if len(values := results.curve(run.id, "probe/retrieval_untrained")[1])
    ]
    if untrained:
        mean = sum(untrained) / len(untrained)
        above = chance is not None and mean >= chance + ABOVE_CHANCE
        why = (
            "; it is above chance because a sample is likelier under the distribution it was drawn from"
            if above
            else ""
        )
        texts.append(f"A randomly initialised model of the same shape has a retrieval of {mean:.2f}{why}.")
    model = model_that_ran(results.runs)
    return [*texts, f"Model that really ran: {model}."] if model else texts


def chance_of_probes(results: Results) -> tuple[str, float | None]:
    """Return the chance level of the probes of all runs, as text and as the largest number; "" and None without one."""
    levels = sorted({probe.chance for run in results.runs for probe in probes(results, run)})
    return " or ".join(f"{level:g}" for level in levels), max(levels, default=None)


def _entropy(condition: str, judged: list[RunRegime], with_builds: bool) -> list[str]:
    """Return the note on entropy and fluency of a condition's runs, which define noise and low entropy."""
    parts = []
    for item in judged:
        if not item.early or item.final is None:
            continue
        before, after = item.early[0].mean_entropy, item.final.mean_entropy
        share = f", {after / item.log_vocabulary:.2f} ln V" if after is not None and item.log_vocabulary else ""
        parts.append(
            f"{_which(item.run, with_builds)} {number(before, 2)} → {number(after, 2)} nats per token{share}, "
            f"{item.final.parsing} of {item.final.reasonings} parse"
        )
    return [f"{label(condition)}, H(Z|X) from start to end: {'; '.join(parts)}."] if parts else []


def _falls(results: Results, conditions: Mapping[str, Mapping[Replicate, RunView]], with_builds: bool) -> list[str]:
    """Return the note on the runs with an arrow, each with the numbers of its fall."""
    falls = [
        f"{label(condition)} {_which(run, with_builds)} {fall}".replace("fell after its peak, ", "")
        for condition, runs in conditions.items()
        for run in runs.values()
        if not run.missing and (fall := fall_after_peak(results, run))
    ]
    return [f"↓ fell after its peak, by 5 points or more and beyond chance: {'; '.join(falls)}."] if falls else []


def _which(run: RunView, with_builds: bool) -> str:
    """Return `seed 0`, or `build 1 seed 0` where several builds occur."""
    return str(run.replicate) if with_builds else f"seed {run.seed}"


def _add(
    table: Table, results: Results, condition: str, item: RunRegime, marks: Marks, with_builds: bool, first: bool
) -> None:
    run = item.run
    numbers = measurements(results, item)
    fall = fall_after_peak(results, run) if not run.missing else None
    title = f"run {run.id} {run.run.name} · {run.outcome or run.missing}" + (f" · {fall}" if fall else "")
    cells = [Cell(str(run.seed), title=title), _regime_cell(item, marks, title)]
    for quantity in SHOWN:
        cells.append(Cell(number(numbers[quantity], 2), title=title))
    if item.high is not None and item.high is not item.early[0]:
        cells[3] = Cell(f"{cells[3].text}@{item.high.step}", title=title)
    else:
        cells[3] = Cell("", title=title)
    end = numbers["success_end"]
    cells.append(Cell(("↓" if fall else "") + number(end, 2) if end is not None else DASH, title=title))
    if with_builds:
        cells.insert(0, Cell(str(run.build), title=title))
    table.rows.append(Row(tuple(cells), rule=first, section=label(condition) if first else ""))
    table.records.append(
        {
            "condition": condition,
            "build": run.build,
            "seed": run.seed,
            "run_id": run.id,
            "outcome": run.outcome or run.missing,
            **numbers,
            "retrieval_high_step": item.high.step if item.high else None,
            "retrieval_chance": item.final.chance if item.final else None,
            "reasonings": item.final.reasonings if item.final else None,
            "reasonings_that_parse": item.final.parsing if item.final else None,
            "regime": "" if run.missing else item.regime.name,
            "reason": item.regime.reason,
            "fell_after_peak": str(fall) if fall else "",
        }
    )


def _regime_cell(item: RunRegime, marks: Marks, title: str) -> Cell:
    """Return the regime's name with its reason as a footnote; for a run without a result, why it has none."""
    run, kind = item.run, item.regime
    if run.missing:
        return Cell(run.missing, tone="missing", title=title)
    stopped = run.outcome if is_stopped(run.outcome) else ""
    mark = marks.of("; ".join(filter(None, [kind.reason, stopped])))
    short = "input-independent" if kind.name == NEVER else kind.name
    tone: Tone = "missing" if kind.name == UNKNOWN else "strong"
    return Cell(kind.name, shorter=(kind.name, short), tone=tone, mark=mark, title=title)


def measurements(results: Results, item: RunRegime) -> dict[str, float | None]:
    """Return name -> measurement of a run, e.g. `retrieval_start`; None if it was not measured.

    Retrieval, `fluent_end` and success are shares in [0, 1], entropies are nats per token, and moves are per turn.
    """
    start, high, final = (item.early[0] if item.early else None), item.high, item.final
    before, after = item.start_behaviour, item.final_behaviour
    _, success = results.curve(item.run.id, SUCCESS)
    peak = peak_score(results, item.run)
    entropy = final.mean_entropy if final else None
    return {
        "retrieval_start": float(start.retrieval.mean()) if start else None,
        "retrieval_high": float(high.retrieval.mean()) if high else None,
        "retrieval_end": float(final.retrieval.mean()) if final else None,
        "entropy_start": start.mean_entropy if start else None,
        "entropy_end": entropy,
        "entropy_share_of_ln_v": entropy / item.log_vocabulary if entropy is not None and item.log_vocabulary else None,
        "fluent_end": float(final.fluent.mean()) if final else None,
        "moves_start": float(before.moves_per_turn.mean()) if before else None,
        "moves_end": float(after.moves_per_turn.mean()) if after else None,
        "success_start": float(success[0]) if len(success) else None,
        "success_peak": peak.value if peak else None,
        "success_end": float(success[-1]) if len(success) else None,
    }
