"""Makes runs from the cells of a matrix: finds the trainer that a cell chooses, resolves its config, and names it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from plat.errors import PluginError, SpecError
from plat.spec.cells import CellSections
from plat.spec.identity import canonical, result_affecting
from plat.spec.matrix import AxisValue
from plat.spec.names import run_name
from plat.spec.overrides import Assignment
from plat.spec.pieces import Piece
from plat.spec.resolver import OtherTrainer, Resolved, Resolver
from plat.spec.sibling import Sibling
from plat.trainer import api

DEFAULT_TRAINER = "embedded"


@dataclass(frozen=True)
class Run:
    """One run: its identity, and everything that its trainer needs.

    id         16 hexadecimal digits, the hash of everything that can change the result
    name       readable, unique because it ends in the beginning of the id
    axes       axis -> label of the matrix position
    config     the resolved config. It shares parts with other runs: do not change it
    prepare    (key, title) of the work that must be done before the run and is shared between runs, or None
    resources  what the trainer asks for, as `plat.trainer.resources.Resources.of` reads it, e.g. {"threads": 1}
    identity   what the id was hashed from besides the config and the fingerprint: the trainer's own name, its
               `plugins` ([key, version]), and the keys of the config that were `left_out`; empty when not known
    version    of its trainer, as it is hashed into the id
    fingerprint  what its trainer says that the run is a function of besides the config, e.g. the base model's content
    headline   the metric that the trainer calls its success
    """

    id: str
    name: str
    axes: dict[str, Any]
    trainer: str
    config: dict[str, Any]
    prepare: tuple[str, str] | None
    resources: dict[str, Any]
    identity: dict[str, Any] = field(default_factory=dict)
    headline: str = api.HEADLINE
    version: str = ""
    fingerprint: dict[str, Any] = field(default_factory=dict)


def same_results(run: Run, other: Run) -> bool:
    """Whether two configs differ in nothing that affects results."""
    if run.config == other.config:
        return True
    spec = api.find_trainer(run.trainer)
    configs = [
        result_affecting("", config, spec.operational_keys, spec.legacy)[1] for config in (run.config, other.config)
    ]
    return canonical(configs[0]) == canonical(configs[1])


class RunMaker:
    """Makes runs from cells.

    base, line  the overrides that all runs share, of the file and of the command line
    alike       axes of which the file knows one value only: they distinguish no run, so names leave them out
    """

    def __init__(
        self, base: tuple[Assignment, ...], line: tuple[Assignment, ...], alike: frozenset[str] = frozenset()
    ) -> None:
        self.base = base
        self.line = line
        self.alike = alike
        self.trainers: dict[str, _Trainer] = {}
        self.seen: dict[str, tuple[str, ...]] = {}

    def compose(self, values: Sequence[AxisValue]) -> None:
        """Compose the config groups of all these values in one call, for the trainer that most runs will have."""
        chosen = _trainer_of([self.base, self.line])
        self._trainer(chosen.value, chosen.where).resolver.pieces.compose(
            [assignment for value in values for assignment in value.assignments]
        )

    def make(self, labels: dict[str, Any], cell: Sequence[tuple[Assignment, ...]], place: str) -> Run:
        """The run of one cell; SpecError, with `place` and the labels, if it cannot be made."""
        chosen = _trainer_of([self.base, *cell, self.line])

        def where() -> str:
            return f"{place} ({_spell(labels)})" if labels else place

        trainer = self._trainer(chosen.value, chosen.where)
        try:
            resolved = trainer.resolve(cell, where)
        except OtherTrainer as other:  # a config group chose another one, e.g. scale=paper
            trainer = self._trainer(other.name, other.where or where())
            try:
                resolved = trainer.resolve(cell, where)
            except OtherTrainer as again:
                raise SpecError(
                    f"the trainers {trainer.name!r} and {again.name!r} name each other",
                    where=where(),
                    mend="set trainer=NAME",
                ) from None
        if self.seen.setdefault(resolved.id, resolved.canon) != resolved.canon:
            raise SpecError(
                f"two different configs share the id {resolved.id}", where=where(), mend="change one's seed"
            )
        differing = [(axis, value) for axis, value in labels.items() if axis not in self.alike]
        config, prepare, resources = resolved.config, resolved.prepare, resolved.resources
        if "seed" in config:
            labels.setdefault("seed", config["seed"])
        return Run(
            resolved.id,
            run_name(resolved.label, differing, config.get("seed"), resolved.id),
            labels,
            trainer.name,
            config,
            prepare,
            resources,
            resolved.identity,
            trainer.headline,
            trainer.version,
            resolved.fingerprint,
        )

    def _trainer(self, name: Any, place: str) -> _Trainer:
        if name not in self.trainers:
            try:
                self.trainers[name] = _Trainer(str(name), self.base, self.line)
            except PluginError as error:
                error.where = f"{error.where} (named at {place})" if error.where else place
                raise
            except SpecError as error:
                error.where = error.where or place
                raise
        return self.trainers[name]


class _Trainer:
    """One trainer: its resolver, and the pieces of the overrides that its runs share."""

    def __init__(self, name: str, base: tuple[Assignment, ...], line: tuple[Assignment, ...]) -> None:
        self.name = name
        spec = api.find_trainer(name)
        self.headline = spec.headline
        self.version = spec.version
        self.resolver = Resolver(spec)
        self.bundles: dict[int, dict[str, Piece]] = {}  # by the identity of an axis value's assignments
        self.kept: list[tuple[Assignment, ...]] = []  # these assignments, so that no other object gets their identity
        self.resolver.pieces.compose((*base, *line))
        self.fixed = {**self.resolver.pieces.defaults, **self._pieces(base)}
        self.last = self._pieces(line)
        self.sections = CellSections(self.resolver.sections, self.resolver.fields, self.fixed, self.last)
        for shared in (self.fixed, self.last):
            self.sections.add(shared)
        self.sibling: Sibling | None = None  # the run before, where runs like it differ in one value only

    def resolve(self, cell: Sequence[tuple[Assignment, ...]], place: Callable[[], str]) -> Resolved:
        """The config of a cell of the matrix; `place()` says, in an error that names no place, which cell it is."""
        known = self.bundles
        if self.sibling is not None and cell:
            last = known.get(id(cell[-1])) or self._bundle(cell[-1])
            try:
                resolved = self.sibling.changed(cell, last, self.sections, self.resolver)
            except SpecError:
                resolved = None  # the full way says where it was written
            if resolved is not None:
                return resolved
        bundles = [known.get(id(assignments)) or self._bundle(assignments) for assignments in cell]

        def chosen() -> dict[str, Piece]:
            pieces = dict(self.fixed)
            for bundle in (*bundles, self.last):
                pieces.update(bundle)
            return pieces

        try:
            resolved = self.resolver.resolve(self.sections.of(bundles, chosen), chosen, self.name, place)
        except SpecError as error:
            error.where = error.where or place()
            raise
        self.sibling = Sibling.of(cell, bundles, resolved, self.sections)
        return resolved

    def _bundle(self, assignments: tuple[Assignment, ...]) -> dict[str, Piece]:
        """What these overrides set, by target; made once."""
        known = self.bundles.get(id(assignments))
        if known is not None:
            return known
        bundle = self.bundles[id(assignments)] = self._pieces(assignments)
        self.sections.add(bundle)
        self.kept.append(assignments)
        return bundle

    def _pieces(self, assignments: tuple[Assignment, ...]) -> dict[str, Piece]:
        """What these overrides set, by target."""
        self.resolver.pieces.compose(assignments)
        pieces = (piece for assignment in assignments for piece in self.resolver.pieces.pieces(assignment))
        return {piece.target: piece for piece in pieces}


def _trainer_of(levels: Sequence[tuple[Assignment, ...]]) -> Assignment:
    """The last override of `trainer`, or the default."""
    for level in reversed(levels):
        for assignment in reversed(level):
            if assignment.key == "trainer":
                return assignment
    return Assignment("trainer", DEFAULT_TRAINER, "the default trainer")


def _spell(labels: Mapping[str, Any]) -> str:
    return ", ".join(f"{name}={value}" for name, value in labels.items())
