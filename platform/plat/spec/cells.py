"""The sections of the configs of a matrix, each made once for the axis values that reach it.

A bundle is what one axis value sets, as pieces by target. It reaches a section when one of its pieces sets something
there, and also when it could replace a piece that does, because a piece takes the place of an earlier one of its
target. Cells that agree in the bundles that reach a section share that section: a cell that differs from another one in
its seed alone costs a few look-ups.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from plat.spec.pieces import Piece, by_section
from plat.spec.sections import Section, SectionMaker

Bundle = Mapping[str, Piece]


class CellSections:
    """Finds the sections of cells that share what comes before and after their bundles (`base`, the command line)."""

    def __init__(self, maker: SectionMaker, names: Sequence[str], before: Bundle, after: Bundle) -> None:
        """`before` and `after` are the bundles that all cells share."""
        self._maker = maker
        self._before, self._after = before, after
        self._names = names
        self._set_by: dict[str, set[str]] = {}  # target -> the sections in which some piece of it sets something
        self._reached: dict[int, tuple[str, ...]] = {}  # by the identity of a bundle
        self._made: dict[str, dict[tuple[int, ...], Section]] = {name: {} for name in names}
        self._unreached: dict[str, Section | None] = dict.fromkeys(names)
        self._shared: dict[str, tuple[dict[str, Piece], dict[str, Piece]]] = {}  # by section: what reaches it, shared

    def add(self, bundle: Bundle) -> None:
        """Get to know a bundle, which must live as long as this object, before it is part of a cell."""
        for target, piece in bundle.items():
            known = self._set_by.setdefault(target, set())
            if not known.issuperset(piece.deltas):
                known.update(piece.deltas)
                self._reached.clear()

    def of(self, bundles: Sequence[Bundle], chosen: Callable[[], Mapping[str, Piece]]) -> dict[str, Section]:
        """The sections of a cell, by name; SpecError when one cannot be made. `chosen` gives all of its pieces."""
        reaching: dict[str, tuple[int, ...]] = {}
        for bundle in bundles:
            own = id(bundle)
            for name in self._reached.get(own) or self._reached_by(bundle):
                reaching[name] = (*reaching[name], own) if name in reaching else (own,)
        sections = self._unreached.copy()
        for name, key in reaching.items():
            sections[name] = self._made[name].get(key)
        missing = [name for name, section in sections.items() if section is None]
        if missing:
            touching = by_section(chosen())
            for name in missing:
                section = sections[name] = self._maker.section(name, touching)
                if name in reaching:
                    self._made[name][reaching[name]] = section
                else:
                    self._unreached[name] = section
        return sections  # type: ignore[return-value]  # none is missing any more

    def only(self, bundle: Bundle) -> str | None:
        """The name of the only section that a bundle reaches; None when it reaches several, or none."""
        reached = self._reached.get(id(bundle)) or self._reached_by(bundle)
        return reached[0] if len(reached) == 1 else None

    def alone(self, bundle: Bundle, name: str) -> Section:
        """A section in cells where this is the only bundle that reaches it; SpecError when it cannot be made."""
        made, key = self._made[name], (id(bundle),)
        section = made.get(key)
        if section is None:
            before, after = self._shared.get(name) or self._sharing(name)
            section = made[key] = self._maker.section(name, by_section({**before, **bundle, **after}))
        return section

    def reach(self, bundles: Sequence[Bundle], name: str) -> bool:
        """Whether one of these bundles reaches the section of this name."""
        return any(name in self._reached_by(bundle) for bundle in bundles)

    def _sharing(self, name: str) -> tuple[dict[str, Piece], dict[str, Piece]]:
        """The shared pieces before and after a cell's bundles that set something in a section, or beside it."""
        names = {name, self._maker.options_of.get(name, name)}
        before, after = (
            {target: piece for target, piece in shared.items() if not names.isdisjoint(piece.deltas)}
            for shared in (self._before, self._after)
        )
        self._shared[name] = before, after
        return before, after

    def _reached_by(self, bundle: Bundle) -> tuple[str, ...]:
        """The sections that a bundle reaches."""
        names = {name for target in bundle for name in self._set_by[target]}
        siblings = self._maker.options_of  # the options of a plug-in depend on the key that names it
        reached = tuple(name for name in self._names if name in names or siblings.get(name) in names)
        self._reached[id(bundle)] = reached
        return reached
