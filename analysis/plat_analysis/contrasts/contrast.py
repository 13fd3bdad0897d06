"""What is compared: a quantity of one condition, or its difference from the same or another quantity of a condition.

Contrast(Term("top_p", peak), minus=Term("none", peak))        what Top-p changes at the peak
Contrast(Term("none", heldout), minus=Term("none", base))      what training taught without a filter
Contrast(Term("none", peak))                                   a level
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from plat_analysis.quantities.quantity import Quantity
from plat_analysis.quantities.success import SUCCESSES


class Term(NamedTuple):
    """A quantity of the runs of one condition."""

    condition: str
    quantity: Quantity


@dataclass(frozen=True)
class Contrast:
    """A term, or a term minus another, paired by build and seed."""

    of: Term
    minus: Term | None = None

    @property
    def terms(self) -> tuple[Term, ...]:
        """What is subtracted, if anything is, and what it is subtracted from."""
        return (self.of,) if self.minus is None else (self.minus, self.of)

    @property
    def bounds(self) -> tuple[float, float] | None:
        """Where intervals end: those of a level at the bounds of its quantity, those of a difference nowhere."""
        return self.of.quantity.bounds if self.minus is None else None


def change(quantity: Quantity, baseline: str, treatment: str) -> Contrast:
    """What a treatment changes in a quantity."""
    return Contrast(Term(treatment, quantity), Term(baseline, quantity))


def success_contrasts(baseline: str, treatment: str) -> Mapping[str, Contrast]:
    """The levels and changes of success of two conditions, by the names that tables of paired changes give them."""
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
