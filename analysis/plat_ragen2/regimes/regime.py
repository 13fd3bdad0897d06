"""Decide which regime a run ended in: did input dependence fall from the run's early level to chance?

Retrieval is the share of reasonings that are likeliest under their own prompt. Where it fell, the regime is
- no reasoning: fewer than half of the blocks have any;
- noise: too few reasonings parse, or H(Z|X) is near that of uniform tokens, without low entropy;
- stopped moving: clearly fewer moves per turn, and no more success;
- low-entropy collapse: moving, and little H(Z|X) left (equal to H(Z), since reasoning is input-independent);
- template collapse: fluent and moving;
- fell from a low level: the early level is not shown to be above `high`. This is not a collapse.
Where it did not fall, the regime is *diverse*, or *compressed* if little entropy is left; *(not fluent)* is added if
too few reasonings parse. It is *input-independent from the start* if the start was near chance, else *undecided*.
Moves, success and entropy are compared with those before training, and only the final checkpoint counts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields

from plat.errors import SpecError
from plat.suggest import suggest
from plat_analysis.statistics.intervals import LEVEL, upper_bound, welch_lower_bound
from plat_ragen2.regimes.probe_tables import Array, Behaviour, Probe

DIVERSE = "diverse"
COMPRESSED = "compressed"
TEMPLATE = "template collapse"
LOW_ENTROPY = "low-entropy collapse"
NO_REASONING = "no reasoning"
NOISE = "noise"
STOPPED_MOVING = "stopped moving"
NOT_FLUENT = " (not fluent)"  # appended to either of the first two
FELL_LOW = "fell from a low level"
NEVER = "input-independent from the start"
UNDECIDED = "undecided"
UNKNOWN = "unknown"
COLLAPSED = (TEMPLATE, LOW_ENTROPY, NO_REASONING, NOISE, STOPPED_MOVING)


@dataclass(frozen=True)
class Thresholds:
    """Hold the numbers of the rule.

    A candidate is an early probe, final the last one. Retrieval fell if a candidate meets `fall` and `near_chance`.

    fall         the least fall: the lower bound of (retrieval of the candidate - retrieval of final) is above it
    near_chance  the lower bound of the candidate is above chance plus this, and the upper bound of final is below that
    high         a fall is a collapse only if the lower bound of its candidate is above this as well
    level        the level of the one-sided bounds of candidates, for all of them together (and of those of `moves`)
    end_level    the level of the one-sided upper bound of final
    reasonings   the regime is unknown if one of these probes has fewer reasonings than this
    fluent       share of reasonings that parse. If fewer parse, it is noise, or not fluent if retrieval did not fall
    noise        share of ln V. If H(Z|X) is above it, it is noise
    low          share of H(Z|X) at the start. If the final H(Z|X) is below it, entropy is low
    moves        share of the moves per turn at the start. If the final moves are shown to be below it: stopped moving
    """

    fall: float = 0.05
    near_chance: float = 0.1
    high: float = 0.0
    level: float = 0.999
    end_level: float = 0.985  # blocks are few and skewed: this errs in at most 2.5 % (benchmarks/error_rates.py)
    reasonings: float = 512
    fluent: float = 0.9
    noise: float = 0.6
    low: float = 0.5
    moves: float = 0.8

    @classmethod
    def read(cls, given: Mapping[str, float] | None) -> Thresholds:
        """Return the given thresholds, and the defaults of the others. Raises SpecError for an unknown name."""
        names = [field.name for field in fields(cls)]
        for name in given or {}:
            if name not in names:
                raise SpecError(f"thresholds: there is no {name!r}", fix=suggest(name, names, "thresholds"))
        return cls(**(given or {}))

    def __str__(self) -> str:
        low = f"{FELL_LOW} if no such evaluation is shown to be above {self.high:g}; " if self.high else ""
        return (
            "retrieval fell if both of these are shown. First, the retrieval of some evaluation in the first half of "
            f"the run (the start included) is above chance + {self.near_chance:g}, and exceeds the final one by more "
            f"than {self.fall:g} (one-sided {100 * self.level:g} % bounds, corrected for the number of these "
            f"evaluations). Second, the final one is below chance + {self.near_chance:g} (one-sided "
            f"{100 * self.end_level:g} % bound). Each evaluation needs at least {self.reasonings:g} reasonings, and "
            f"blocks of prompts are the units. Low entropy: H(Z|X) is below {self.low:g} of its value at the start. "
            f"If retrieval fell, the first name that applies is used: {low}{NO_REASONING} if most blocks have none; "
            f"{NOISE} if entropy is not low, and fewer than {100 * self.fluent:g} % of the reasonings parse or H(Z|X) "
            f"is above {self.noise:g} ln V; {STOPPED_MOVING} if moves per turn are shown to be below {self.moves:g} "
            f"of those at the start and success did not rise; {LOW_ENTROPY} if entropy is low; else {TEMPLATE}. If "
            f"retrieval did not fall: {DIVERSE} if the final one is above chance + {self.near_chance:g}, or "
            f"{COMPRESSED} if entropy is also low; “{NOT_FLUENT.strip(' ()')}” is added to both if fewer than "
            f"{100 * self.fluent:g} % parse; {NEVER} if the start is not above this bound either; else {UNDECIDED}. "
            f"{UNKNOWN.capitalize()}: something was not measured. Start: the model before training; final: the last "
            "checkpoint"
        )


DEFAULTS = Thresholds()


@dataclass(frozen=True)
class Regime:
    """Hold the name of a regime, and a reason where the name needs one."""

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
    """Return the regime of one run; `unknown`, with the reason, where a needed measurement is missing.

    early           candidates for the early level, the probe before training first: see `probe_tables.early_probes`
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
    share, fluent = after / log_vocabulary, float(final.fluent.mean())
    reasons = [f"H(Z|X) {share:.2f} ln V"] if share > limits.noise else []
    unlike_language = ", ".join(reasons + ([f"{100 * fluent:.0f} % parse"] if fluent < limits.fluent else []))
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
    """Return True if retrieval is shown to have fallen to chance from an early probe's level above `least`.

    Each early probe is tested at 1 - `level` divided by their number (Bonferroni), so that choosing the highest does
    not make a false fall likelier than 1 - `level`.
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


def _moves(start: Behaviour, final: Behaviour, limits: Thresholds) -> str:
    """Return `lost`, `kept`, or "" where neither is shown, over the validation instances, paired where possible."""
    if _rise(final.success, start.success, LEVEL) > 0:
        return "kept"  # fewer moves with more success are skill
    least = limits.moves * start.moves_per_turn
    if _rise(least, final.moves_per_turn, limits.level) > 0:
        return "lost"
    return "kept" if _rise(final.moves_per_turn, least, limits.level) > 0 else ""


def _rise(first: Array, second: Array, level: float) -> float:
    """Return the one-sided lower confidence bound of mean(first) - mean(second), paired where shapes are equal."""
    if first.shape == second.shape:
        return -upper_bound(second - first, level)
    return welch_lower_bound(first, second, level)
