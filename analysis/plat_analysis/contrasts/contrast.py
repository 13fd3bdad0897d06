"""Define what is estimated: a quantity of one condition, or its difference from another condition or quantity.

Contrast(Term("top_p", peak), minus=Term("none", peak))        Top-p's change at the peak
Contrast(Term("none", heldout), minus=Term("none", base))      what training without a filter taught
Contrast(Term("none", peak))                                   a level
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from plat_analysis.quantities.quantity import Quantity
from plat_analysis.quantities.success import SUCCESSES


class Term(NamedTuple):
    """Name a quantity of the runs of one condition."""

    condition: str
    quantity: Quantity


@dataclass(frozen=True)
class Contrast:
    """Hold a term, or a term minus another, paired by build and seed."""

    of: Term
    minus: Term | None = None

    @property
    def terms(self) -> tuple[Term, ...]:
        """Return the subtracted term, if any, then the main term."""
        return (self.of,) if self.minus is None else (self.minus, self.of)

    @property
    def seedless(self) -> bool:
        """Return True if no term depends on the run's seed (see `Quantity.seedless`)."""
        return all(term.quantity.seedless for term in self.terms)

    @property
    def bounds(self) -> tuple[float, float] | None:
        """Return the limits of intervals: the quantity's bounds for a level, None for a difference."""
        return self.of.quantity.bounds if self.minus is None else None


def change(quantity: Quantity, baseline: str, treatment: str) -> Contrast:
    """Return the change of a quantity from baseline to treatment."""
    return Contrast(Term(treatment, quantity), Term(baseline, quantity))


def success_contrasts(baseline: str, treatment: str) -> Mapping[str, Contrast]:
    """Return name -> contrast, for success in two conditions.

    `peak`, `heldout`, `final` and `base` are levels of the baseline, and `peak_treated` etc. of the treatment. `delta`
    (of the peak), `heldout_delta` and `final_delta` are changes. `learned` and `learned_treated`: held-out minus base.
    """
    peak, heldout, final, base = (SUCCESSES[name] for name in ("peak", "heldout", "final", "base"))
    contrasts: dict[str, Contrast] = {}
    for name, quantity in (("peak", peak), ("heldout", heldout), ("final", final)):
        contrasts[name] = Contrast(Term(baseline, quantity))
        contrasts[f"{name}_treated"] = Contrast(Term(treatment, quantity))
        contrasts["delta" if quantity is peak else f"{name}_delta"] = change(quantity, baseline, treatment)
    return contrasts | {
        "base": Contrast(Term(baseline, base)),
        "base_treated": Contrast(Term(treatment, base)),
        "learned": Contrast(Term(baseline, heldout), Term(baseline, base)),
        "learned_treated": Contrast(Term(treatment, heldout), Term(treatment, base)),
    }
