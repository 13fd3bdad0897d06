"""Which regime a run ended in. The test: did input dependence fall from the run's own early level to chance?

Where retrieval (the share of reasonings that are likeliest under their own prompt) fell, the word says what was lost:

- noise: the reasonings are no longer language (too few parse, or H(Z|X) is near that of uniform tokens);
- stopped moving: fluent, but the policy makes far fewer moves per turn and succeeds no more often. Such a policy has
  little to reason about, so its reasoning is not called a template;
- template collapse: fluent, moving, and no longer dependent on the input;
- low-entropy collapse: the same with little entropy left.

Where it did not fall, the run is in one of the paper's other two regimes: diverse, or compressed (little entropy left).
A model whose reasoning never depended on its input is *input-independent from the start*, which is no collapse. Where
the test shows neither a fall nor the absence of one, the regime is *undecided*.

Only the final checkpoint counts, never the peak. `early` and `final` are independent fresh samples.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields

from plat.errors import SpecError
from plat.suggest import mend
from plat_analysis.probe import Array, Behaviour, Probe
from plat_analysis.statistics import LEVEL, upper_bound, welch_lower_bound

DIVERSE = "diverse"
COMPRESSED = "compressed"
TEMPLATE = "template collapse"
LOW_ENTROPY = "low-entropy collapse"
NOISE = "noise"
STOPPED_MOVING = "stopped moving"
NEVER = "input-independent from the start"
UNDECIDED = "undecided"
UNKNOWN = "unknown"
COLLAPSED = (TEMPLATE, LOW_ENTROPY, NOISE, STOPPED_MOVING)


@dataclass(frozen=True)
class Thresholds:
    """The numbers of the rule.

    fall         retrieval fell where the lower bound of early minus final is above this
    near_chance  and the upper bound of final is below chance plus this
    level        of these one-sided bounds
    reasonings   fewer than this in either probe: unknown
    fluent       share of reasonings that parse; fewer are noise
    noise        share of ln V; a higher H(Z|X) is noise
    low          share of the early H(Z|X); a lower final one is low entropy
    moves        share of the early moves per turn; shown to be below it: stopped moving
    """

    fall: float = 0.1
    near_chance: float = 0.1
    level: float = 0.999
    reasonings: float = 512
    fluent: float = 0.9
    noise: float = 0.6
    low: float = 0.5
    moves: float = 0.5

    @classmethod
    def read(cls, given: Mapping[str, float] | None) -> Thresholds:
        """The thresholds of an experiment file; SpecError for a name that is not a threshold."""
        names = [field.name for field in fields(cls)]
        for name in given or {}:
            if name not in names:
                raise SpecError(f"thresholds: there is no {name!r}", mend=mend(name, names, "thresholds"))
        return cls(**(given or {}))

    def __str__(self) -> str:
        return (
            f"retrieval fell where the one-sided {100 * self.level:g} % bound of early minus final is above "
            f"{self.fall:g} and that of final below chance + {self.near_chance:g}, on at least {self.reasonings:g} "
            f"reasonings each, blocks of prompts as units. Then noise where fewer than {100 * self.fluent:g} % of the "
            f"reasonings parse or H(Z|X) is above {self.noise:g} ln V; stopped moving where moves per turn are shown "
            f"to be below {self.moves:g} of their early level and success did not rise; low-entropy collapse where "
            f"H(Z|X) is below {self.low:g} of its early level; else template collapse. Not fallen: diverse, or "
            "compressed where H(Z|X) is that low. Early: the first two evaluations; final: the last checkpoint"
        )


@dataclass(frozen=True)
class Regime:
    """The name of a regime, and a reason where the name needs one."""

    name: str
    reason: str = ""

    def __str__(self) -> str:
        return f"{self.name}: {self.reason}" if self.reason else self.name


def regime(
    early: Probe | None,
    final: Probe | None,
    early_behaviour: Behaviour | None,
    final_behaviour: Behaviour | None,
    log_vocabulary: float | None,
    limits: Thresholds = Thresholds(),
) -> Regime:
    """The regime of one run; `unknown`, with the reason, where something that the rule needs was not measured.

    log_vocabulary  ln V, in nats; the entropy of tokens drawn uniformly from the vocabulary
    """
    if early is None or final is None:
        return Regime(UNKNOWN, "its reasonings were not probed")
    few = min(early.reasonings, final.reasonings)
    if few < limits.reasonings:
        return Regime(UNKNOWN, f"{few} reasonings were probed, {limits.reasonings:g} are needed")
    before, after = early.mean_entropy, final.mean_entropy
    low = before is not None and after is not None and after < limits.low * before
    if not fell(early, final, limits):
        return _not_fallen(early, final, low, limits)
    if not log_vocabulary:
        return Regime(UNKNOWN, "the size of the vocabulary is not known")
    noise = _noise(final, log_vocabulary, limits)
    if noise:
        return Regime(NOISE, noise)
    if early_behaviour is None or final_behaviour is None:
        return Regime(UNKNOWN, "retrieval fell to chance, and moves were not measured")
    moves = _moves(early_behaviour, final_behaviour, limits)
    if moves != "kept":
        change = (
            f"{early_behaviour.moves_per_turn.mean():.2f} → {final_behaviour.moves_per_turn.mean():.2f} moves per turn"
        )
        return (
            Regime(STOPPED_MOVING, change)
            if moves == "lost"
            else Regime(UNDECIDED, f"retrieval fell to chance; {change}")
        )
    return Regime(LOW_ENTROPY if low else TEMPLATE)


def fell(early: Probe, final: Probe, limits: Thresholds) -> bool:
    """Whether retrieval is shown to have fallen from its early level to chance."""
    fall = welch_lower_bound(early.retrieval, final.retrieval, limits.level)
    return fall > limits.fall and upper_bound(final.retrieval, limits.level) < final.chance + limits.near_chance


def _not_fallen(early: Probe, final: Probe, low: bool, limits: Thresholds) -> Regime:
    bound = final.chance + limits.near_chance
    if final.retrieval.mean() > bound:
        return Regime(COMPRESSED if low else DIVERSE)
    if early.retrieval.mean() <= bound:
        return Regime(NEVER)
    return Regime(UNDECIDED, "retrieval is near chance, and its fall is not shown")


def _noise(final: Probe, log_vocabulary: float, limits: Thresholds) -> str:
    """Why the reasonings are noise; "" where they are language."""
    share, fluent = (final.mean_entropy or 0.0) / log_vocabulary, float(final.fluent.mean())
    reasons = [f"H(Z|X) {share:.2f} ln V"] if share > limits.noise else []
    return ", ".join(reasons + ([f"{100 * fluent:.0f} % parse"] if fluent < limits.fluent else []))


def _moves(early: Behaviour, final: Behaviour, limits: Thresholds) -> str:
    """`lost`, `kept`, or "" where neither is shown. Tested over the validation instances, paired where they are the
    same."""
    if _rise(final.success, early.success, LEVEL) > 0:
        return "kept"  # fewer moves that succeed more often are skill
    least = limits.moves * early.moves_per_turn
    if _rise(least, final.moves_per_turn, limits.level) > 0:
        return "lost"
    return "kept" if _rise(final.moves_per_turn, least, limits.level) > 0 else ""


def _rise(first: Array, second: Array, level: float) -> float:
    """One-sided lower confidence bound of mean(first) - mean(second), paired where both have the same instances."""
    if first.shape == second.shape:
        return -upper_bound(second - first, level)
    return welch_lower_bound(first, second, level)
