"""Runs that differ from an earlier one in a single value that decides nothing else, such as the seed.

Most runs of a large matrix are like that: their axis varies fastest. Only the value in the config and its text in the
identity are replaced; everything else is shared with the earlier run.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from plat.spec.cells import Bundle, CellSections
from plat.spec.identity import identity
from plat.spec.overrides import Assignment
from plat.spec.resolver import Resolved, Resolver
from plat.spec.sections import Section

Cell = Sequence[tuple[Assignment, ...]]


@dataclass(frozen=True, slots=True)
class Sibling:
    """A run that was resolved in full.

    head      its cell without the value of the last axis
    name      the section that the value of the last axis sets, and no other value of the cell
    resolved  the run
    place     of the text of that section in `resolved.canon`
    """

    head: Cell
    name: str
    resolved: Resolved
    place: int

    @classmethod
    def of(cls, cell: Cell, bundles: Sequence[Bundle], resolved: Resolved, sections: CellSections) -> Sibling | None:
        """From a cell and what it was resolved to; None where its last value does more than set a value."""
        name = sections.only(bundles[-1]) if bundles else None
        if name is None or sections.reach(bundles[:-1], name):
            return None
        section = sections.alone(bundles[-1], name)
        if section.label or section.text not in resolved.canon:
            return None
        return cls(cell[:-1], name, resolved, resolved.canon.index(section.text))

    def changed(self, cell: Cell, bundle: Bundle, sections: CellSections, resolver: Resolver) -> Resolved | None:
        """The run of a cell, of whose last value this is the bundle; None where it is not that of a sibling.

        SpecError when the value cannot be one of its section.
        """
        name = sections.only(bundle)
        if name != self.name or not resolver.is_free(name) or cell[:-1] != self.head:
            return None
        section = sections.alone(bundle, name)
        return self._with(section) if resolver.is_free(name) else None  # making it may show that it decides something

    def _with(self, section: Section) -> Resolved | None:
        if section.label or not section.text:
            return None
        earlier = self.resolved.canon
        canon = (*earlier[: self.place], section.text, *earlier[self.place + 1 :])
        config = {**self.resolved.config, self.name: section.value}
        return self.resolved.replaced(identity(canon[:-1], canon[-1]), config, canon)
