"""The names of the regimes, and the numbers of the rule that decides between them (`plat_analysis.regimes.regime`).

In a file of their own because an experiment file that names thresholds is checked before anything is computed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields

from plat.errors import SpecError
from plat.suggest import mend

DIVERSE = "diverse"
COMPRESSED = "compressed"
TEMPLATE = "template collapse"
LOW_ENTROPY = "low-entropy collapse"
NO_REASONING = "no reasoning"
NOISE = "noise"
STOPPED_MOVING = "stopped moving"
NOT_FLUENT = " (not fluent)"  # behind either of the first two, where too few reasonings are sentences
FELL_LOW = "fell from a low level"
NEVER = "input-independent from the start"
UNDECIDED = "undecided"
UNKNOWN = "unknown"
COLLAPSED = (TEMPLATE, LOW_ENTROPY, NO_REASONING, NOISE, STOPPED_MOVING)


@dataclass(frozen=True)
class Thresholds:
    """The numbers of the rule.

    fall         retrieval fell where, for a candidate, the lower bound of candidate minus final is above this
    near_chance  and the lower bound of the candidate is above chance plus this, and the upper bound of final below
    high         and the lower bound of the candidate is above this, for a fall to count as a collapse
    level        of the one-sided bounds of candidates, for all of them together
    end_level    of the one-sided upper bound of final
    reasonings   fewer than this in any of these probes: unknown
    fluent       share of reasonings that parse; fewer are noise, or not fluent where retrieval did not fall
    noise        share of ln V; a higher H(Z|X) is noise
    low          share of the H(Z|X) at the start; a lower final one is low entropy
    moves        share of the moves per turn at the start; shown to be below it: stopped moving
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
        """The thresholds of an experiment file; SpecError for a name that is not a threshold."""
        names = [field.name for field in fields(cls)]
        for name in given or {}:
            if name not in names:
                raise SpecError(f"thresholds: there is no {name!r}", mend=mend(name, names, "thresholds"))
        return cls(**(given or {}))

    def __str__(self) -> str:
        low = f"; {FELL_LOW} where none of them is shown to be above {self.high:g}" if self.high else ""
        return (
            "retrieval fell where that of some evaluation of the first half of the run (the start included) is above "
            f"chance + {self.near_chance:g} and minus the final one above {self.fall:g}, by one-sided "
            f"{100 * self.level:g} % bounds, corrected for the number of these evaluations, and the final one is below "
            f"chance + {self.near_chance:g}, by a one-sided {100 * self.end_level:g} % bound; on at least "
            f"{self.reasonings:g} reasonings each, blocks of prompts as units. Fallen{low}: {NO_REASONING} where most "
            f"blocks have none; {NOISE} where fewer than {100 * self.fluent:g} % of the reasonings parse or H(Z|X) is "
            f"above {self.noise:g} ln V, unless H(Z|X) is below {self.low:g} of that at the start; {STOPPED_MOVING} "
            f"where moves per turn are shown to be below {self.moves:g} of those at the start and success did not "
            f"rise; {LOW_ENTROPY} where H(Z|X) is that low; else {TEMPLATE}. Not fallen: {DIVERSE} where the final "
            f"one is above chance + {self.near_chance:g}, or {COMPRESSED} where H(Z|X) is that low, either "
            f"“{NOT_FLUENT.strip(' ()')}” where fewer than {100 * self.fluent:g} % parse; {NEVER} where "
            f"the start is not above it either; else {UNDECIDED}. {UNKNOWN.capitalize()}: something was not "
            "measured. Start: the model before training; final: the last checkpoint"
        )


DEFAULTS = Thresholds()
