"""Which of the regimes a run ended in, by stated thresholds.

The paper's four: diverse (input-dependent, high entropy), template collapse (input-independent, fluent), compressed
(input-dependent, low entropy), low-entropy collapse. A fifth, noise: input-independent, but the reasonings are nearly
uniform tokens or no sentences any more, so that calling them a template would be wrong.
"""

from __future__ import annotations

from dataclasses import dataclass

DIVERSE = "diverse"
TEMPLATE = "template collapse"
COMPRESSED = "compressed"
LOW_ENTROPY = "low-entropy collapse"
NOISE = "noise"
UNKNOWN = "unknown"


@dataclass(frozen=True)
class Thresholds:
    """near_chance: retrieval accuracy minus chance; fluent: share of ln V for H(Z|X); low: share of the H(Z|X) that the
    run started with (what is little depends on the language the base model was taught); parses: a share."""

    near_chance: float = 0.15
    fluent: float = 0.6
    low: float = 0.5
    parses: float = 0.9

    def __str__(self) -> str:
        return (
            f"entropy is low: H(Z|X) below {self.low:g} times its first measurement. Retrieval accuracy more than "
            f"{self.near_chance:g} above chance: diverse, or compressed where entropy is low. Otherwise, noise where "
            f"H(Z|X) is above {self.fluent:g} ln V (too uniform) or fewer than {100 * self.parses:g} % of the "
            "reasonings parse (format broken); else template collapse, or low-entropy collapse where entropy is low"
        )

    def noise(self, share: float, parses: float) -> str:
        """Which condition made it noise, with its value; "" when it is none. share: H(Z|X) over ln V."""
        told = [f"H(Z|X) {share:.2f} ln V"] if share > self.fluent else []
        return ", ".join(told + ([f"{100 * parses:.0f} % parse"] if parses < self.parses else []))


def regime(
    above_chance: float | None,
    conditional_entropy: float | None,
    parses: float | None,
    log_vocabulary: float | None,
    first_entropy: float | None,
    limits: Thresholds = Thresholds(),
) -> str:
    """The regime of one run from its final values and the H(Z|X) it started with; `unknown` when one that matters was
    not measured."""
    if above_chance is None or conditional_entropy is None or first_entropy is None or not log_vocabulary:
        return UNKNOWN
    share, low = conditional_entropy / log_vocabulary, conditional_entropy < limits.low * first_entropy
    if above_chance > limits.near_chance:
        return COMPRESSED if low else DIVERSE
    if parses is None:
        return UNKNOWN
    if limits.noise(share, parses):
        return NOISE
    return LOW_ENTROPY if low else TEMPLATE
