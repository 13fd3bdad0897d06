"""Which regime a run ended in. The test: did input dependence fall from the run's own early level to chance?

The early level is that of any evaluation of the first half of the run, the one before training included. Each of these
candidates is tested against the final checkpoint, at a level divided by their number (Bonferroni), so that choosing the
one that shows a fall makes no false fall likelier than the level says.

Where retrieval (the share of reasonings that are likeliest under their own prompt) fell, the word says what was lost:

- no reasoning: fewer than half of the blocks have any, the responses act without a thought;
- noise: the reasonings are no longer language (too few parse, or H(Z|X) is near that of uniform tokens), and many;
- stopped moving: the policy makes clearly fewer moves per turn and succeeds no more often. Such a policy has little to
  reason about, so its reasoning is not called a template;
- template collapse: fluent, moving, and no longer dependent on the input;
- low-entropy collapse: moving, no longer dependent on the input, and with little entropy left. Where the reasoning does
  not depend on the prompt, H(Z) = H(Z|X): so few different texts are left over all prompts together. Whether these are
  sentences does not matter; a single word for every prompt is no noise.

A fall is from a level that is itself shown to be above the null, so that a run which began within it did not fall.
Where a search has written down how high that level has to be (`high`), a fall from less is called so, no collapse.

Where it did not fall, the run is in one of the paper's other two regimes: diverse, or compressed (little entropy left).
Both are those of a policy that reasons; where too few of its reasonings are sentences, it is called *not fluent*.
A model that is near chance before training, and shows no fall from a later level, is *input-independent from the
start*, which is no collapse. Where the test shows neither a fall nor the absence of one, the regime is *undecided*.

Moves, success and entropy are compared with those before training. Only the final checkpoint counts, never the peak.
All probes are independent fresh samples.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from plat_analysis.regimes.probe import Array, Behaviour, Probe
from plat_analysis.regimes.thresholds import (
    COMPRESSED,
    DEFAULTS,
    DIVERSE,
    FELL_LOW,
    LOW_ENTROPY,
    NEVER,
    NO_REASONING,
    NOISE,
    NOT_FLUENT,
    STOPPED_MOVING,
    TEMPLATE,
    UNDECIDED,
    UNKNOWN,
    Thresholds,
)
from plat_analysis.statistics.intervals import LEVEL, upper_bound, welch_lower_bound


@dataclass(frozen=True)
class Regime:
    """The name of a regime, and a reason where the name needs one."""

    name: str
    reason: str = ""

    def __str__(self) -> str:
        return f"{self.name}: {self.reason}" if self.reason else self.name


def regime(
    early: Sequence[Probe],
    final: Probe | None,
    start_behaviour: Behaviour | None,
    final_behaviour: Behaviour | None,
    log_vocabulary: float | None,
    limits: Thresholds = DEFAULTS,
) -> Regime:
    """The regime of one run; `unknown`, with the reason, where something that the rule needs was not measured.

    early           the candidates for the early level, the probe before training first: see `probe.early_probes`
    log_vocabulary  ln V, in nats; the entropy of tokens drawn uniformly from the vocabulary
    """
    if not early or final is None:
        return Regime(UNKNOWN, "its reasonings were not probed")
    few = min(probe.reasonings for probe in (*early, final))
    if few < limits.reasonings:
        return Regime(UNKNOWN, f"{few} reasonings were probed, {limits.reasonings:g} are needed")
    before, after = early[0].mean_entropy, final.mean_entropy
    low = before is not None and after is not None and after < limits.low * before
    if not fell(early, final, limits):
        return _not_fallen(early[0], final, low, limits)
    if not fell(early, final, limits, limits.high):
        return Regime(FELL_LOW, f"not shown to be from above {limits.high:g}")
    if after is None:
        return Regime(NO_REASONING)
    if not log_vocabulary:
        return Regime(UNKNOWN, "the size of the vocabulary is not known")
    unlike_language = _unlike_language(after / log_vocabulary, final, limits)
    if unlike_language and not low:
        return Regime(NOISE, unlike_language)
    if start_behaviour is None or final_behaviour is None:
        return Regime(UNKNOWN, "retrieval fell to chance, and moves were not measured")
    moves = _moves(start_behaviour, final_behaviour, limits)
    if moves != "kept":
        change = (
            f"{start_behaviour.moves_per_turn.mean():.2f} → {final_behaviour.moves_per_turn.mean():.2f} moves per turn"
        )
        return (
            Regime(STOPPED_MOVING, change)
            if moves == "lost"
            else Regime(UNDECIDED, f"retrieval fell to chance; {change}")
        )
    return Regime(LOW_ENTROPY, unlike_language) if low else Regime(TEMPLATE)


def fell(early: Sequence[Probe], final: Probe, limits: Thresholds, least: float = 0.0) -> bool:
    """Whether retrieval is shown to have fallen to chance from the level of one of the early probes, above `least`.

    The level is divided by the number of early probes: where none of them differs from the final one, a fall is shown
    with a probability of at most 1 - `level`, whichever of them is the highest.
    """
    null, level = final.chance + limits.near_chance, 1 - (1 - limits.level) / len(early)
    falls = [
        welch_lower_bound(probe.retrieval, final.retrieval, level)
        for probe in early
        if -upper_bound(-probe.retrieval, level) > max(null, least)
    ]
    return upper_bound(final.retrieval, limits.end_level) < null and max(falls, default=0.0) > limits.fall


def _not_fallen(start: Probe, final: Probe, low: bool, limits: Thresholds) -> Regime:
    bound = final.chance + limits.near_chance
    if final.retrieval.mean() > bound:
        fluent = float(final.fluent.mean()) >= limits.fluent
        return Regime((COMPRESSED if low else DIVERSE) + ("" if fluent else NOT_FLUENT))
    if start.retrieval.mean() <= bound:
        return Regime(NEVER)
    return Regime(UNDECIDED, "retrieval is near chance, and its fall is not shown")


def _unlike_language(entropy_share: float, final: Probe, limits: Thresholds) -> str:
    """Why the reasonings are no language; "" where they are. `entropy_share` is H(Z|X) / ln V."""
    fluent = float(final.fluent.mean())
    reasons = [f"H(Z|X) {entropy_share:.2f} ln V"] if entropy_share > limits.noise else []
    return ", ".join(reasons + ([f"{100 * fluent:.0f} % parse"] if fluent < limits.fluent else []))


def _moves(start: Behaviour, final: Behaviour, limits: Thresholds) -> str:
    """`lost`, `kept`, or "" where neither is shown. Tested over the validation instances, paired where they are the
    same."""
    if _rise(final.success, start.success, LEVEL) > 0:
        return "kept"  # fewer moves that succeed more often are skill
    least = limits.moves * start.moves_per_turn
    if _rise(least, final.moves_per_turn, limits.level) > 0:
        return "lost"
    return "kept" if _rise(final.moves_per_turn, least, limits.level) > 0 else ""


def _rise(first: Array, second: Array, level: float) -> float:
    """One-sided lower confidence bound of mean(first) - mean(second), paired where both have the same instances."""
    if first.shape == second.shape:
        return -upper_bound(second - first, level)
    return welch_lower_bound(first, second, level)
