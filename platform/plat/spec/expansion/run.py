"""Make runs from the cells of a matrix: find the trainer of a cell, resolve its config, and name it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

from plat.errors import PluginError, SpecError
from plat.plugins.loading import published
from plat.spec.composition.pieces import Piece
from plat.spec.composition.resolver import OtherTrainer, Resolved, Resolver
from plat.spec.composition.trainer_calls import checked_call
from plat.spec.identity.run_identity import NAME_LIMIT, canonical, readable, result_affecting
from plat.spec.reading.overrides import Assignment
from plat.trainer import api, finding

LONGEST_NUMBER = 10  # characters; a longer number, such as a value drawn by a search, is shown with four digits


@dataclass(frozen=True)
class Run:
    """One run: its identity, and everything that its trainer needs.

    id           16 hexadecimal digits, the hash of everything that can change the result
    name         readable; unique because it ends with the beginning of the id
    axes         axis -> label of the matrix position
    config       the resolved config. It shares parts with other runs: do not change it
    prepare      (key, title) of the work that must be done before the run and is shared between runs, or None
    resources    the trainer's request, as `plat.trainer.resources.Resources.of` reads it, e.g. {"threads": 1}
    identity     other inputs of the id, besides config and fingerprint: the trainer's own name, its `plugins`
                 ([key, version]), and the config keys that were `left_out`; empty if not known
    version      the trainer's version, as hashed into the id
    fingerprint  the trainer's inputs besides the config, e.g. the base model's content
    headline     the metric that the trainer calls its success
    earlier      the id and the identity that plat 0.4 gave it, if they are others
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
    earlier: tuple[str, dict[str, Any]] | None = None


def same_results(run: Run, other: Run) -> bool:
    """Return True if two runs' configs differ in nothing that affects results."""
    if run.config == other.config:
        return True
    spec = finding.find_trainer(run.trainer)
    mine, its = (result_affecting("", of.config, spec.operational_keys, spec.legacy)[1] for of in (run, other))
    return canonical(mine) == canonical(its)


class RunMaker:
    """Maker of runs from cells.

    base, line  the overrides that all runs share, of the file and of the command line
    alike       axes with a single value in the file, which names leave out because they distinguish no run
    folder      the folder of the experiment file; without one, the current folder
    """

    def __init__(
        self,
        base: tuple[Assignment, ...],
        line: tuple[Assignment, ...],
        alike: frozenset[str] = frozenset(),
        folder: Path = Path(),
    ) -> None:
        self.base = base
        self.line = line
        self.alike = alike
        self.folder = folder
        self.trainers: dict[str, _Trainer] = {}
        self.seen: dict[str, tuple[str, ...]] = {}

    def make(self, labels: dict[str, Any], cell: Sequence[tuple[Assignment, ...]], place: str) -> Run:
        """Return the run of one cell. Raises SpecError, with `place` and the labels, if it cannot be made.

        labels  axis -> label; becomes the run's `axes`, and gets "seed" if the config has one
        cell    the overrides of the cell's value on each axis
        """
        chosen = _trainer_of([self.base, *cell, self.line])

        def where() -> str:
            return f"{place} ({', '.join(f'{name}={value}' for name, value in labels.items())})" if labels else place

        trainer = self._trainer(chosen.value, chosen.where)
        try:
            resolved = trainer.resolve(cell, where)
        except OtherTrainer as other:  # a config group chose another one, e.g. scale=paper
            name, chosen_at = other.args
            trainer = self._trainer(name, chosen_at or where())
            try:
                resolved = trainer.resolve(cell, where)
            except OtherTrainer as again:
                what = f"the trainers {trainer.name!r} and {again.args[0]!r} name each other"
                raise SpecError(what, where=where(), fix="set trainer=NAME") from None
        if self.seen.setdefault(resolved.id, resolved.canon) != resolved.canon:
            raise SpecError(f"two different configs share the id {resolved.id}", where=where(), fix="change one's seed")
        differing = [(axis, value) for axis, value in labels.items() if axis not in self.alike]
        config, checked, spec = resolved.config, resolved.checked, trainer.resolver.spec
        if "seed" in config:
            labels.setdefault("seed", config["seed"])
        return Run(
            id=resolved.id,
            name=run_name(resolved.label, differing, config.get("seed"), resolved.id),
            axes=labels,
            trainer=trainer.name,
            config=config,
            prepare=checked.prepare,
            resources=checked.resources,
            identity=checked.identity,
            headline=checked_call(spec, "headline")(config),
            version=spec.version,
            fingerprint=checked.fingerprint,
            earlier=resolved.earlier,
        )

    def _trainer(self, name: Any, place: str) -> _Trainer:
        if name not in self.trainers:
            try:
                self.trainers[name] = _Trainer(str(name), self.base, self.line, self.folder)
            except PluginError as error:
                error.where = f"{error.where} (named at {place})" if error.where else place
                raise
            except SpecError as error:
                error.where = error.where or place
                raise
        return self.trainers[name]


class _Trainer:
    """One trainer: its resolver, and the pieces of the overrides that its runs share."""

    def __init__(self, name: str, base: tuple[Assignment, ...], line: tuple[Assignment, ...], folder: Path) -> None:
        self.name = name
        self.resolver = Resolver(finding.find_trainer(name, folder), folder)
        self.bundles: dict[int, dict[str, Piece]] = {}  # by the identity of an axis value's assignments
        self.kept: list[tuple[Assignment, ...]] = []  # keeps these assignments alive, so that their ids stay unique
        self.fixed = {**self.resolver.pieces.defaults, **self._pieces(base)}
        self.last = self._pieces(line)

    def resolve(self, cell: Sequence[tuple[Assignment, ...]], where: Callable[[], str]) -> Resolved:
        """Resolve the config of a cell. `where()` locates the cell in an error without a position."""
        pieces = self.fixed.copy()
        for assignments in cell:
            if id(assignments) not in self.bundles:
                self.bundles[id(assignments)] = self._pieces(assignments)
                self.kept.append(assignments)
            pieces.update(self.bundles[id(assignments)])
        pieces.update(self.last)
        try:
            return self.resolver.resolve(pieces, self.name, where)
        except SpecError as error:
            error.where = error.where or where()
            raise

    def _pieces(self, assignments: tuple[Assignment, ...]) -> dict[str, Piece]:
        """Return the pieces of these overrides, by target."""
        pieces = (piece for assignment in assignments for piece in self.resolver.pieces.pieces(assignment))
        return {piece.target: piece for piece in pieces}


def _trainer_of(levels: Sequence[tuple[Assignment, ...]]) -> Assignment:
    """Return the last override of `trainer`, or the default. Raises SpecError if there is neither."""
    for level in reversed(levels):
        for assignment in reversed(level):
            if assignment.key == "trainer":
                return assignment
    name = finding.default_trainer(assignment.key.partition(".")[0] for level in levels for assignment in level)
    if name is None:
        known = ", ".join(published("plat.trainers"))
        raise SpecError("no trainer is named", fix=f"set trainer=NAME ({known}), or give the command of a script")
    return Assignment("trainer", name, "the default trainer")


def run_name(label: str, axes: Iterable[tuple[str, Any]], seed: Any, identifier: str) -> str:
    """Return the name of a run, e.g. `digits-adam-lr0.01-s0-1a2b3c4d`.

    The id alone identifies a run, and every verb finds a run by the end of its name. The first file that asks for the
    run decides which axes its name shows; the name is stored with the run and never changes.

    label  what the name shows without any axis: the readable names of the config groups, or of the trainer
    axes   (axis, label) pairs that distinguish it, in the order of the file. A pair that would make the name longer
           than NAME_LIMIT is left out
    seed   None for a config without a seed
    """
    text = ""
    for axis, value in axes:
        part = _part(axis, value) if axis != "seed" else ""
        if part and len(text) + len(part) < NAME_LIMIT:
            text = f"{text}-{part}" if text else part
    ending = f"-s{seed}-" if seed is not None else "-"
    return (text or label) + ending + identifier[:8]


@lru_cache(maxsize=4096, typed=True)
def _part(axis: str, value: Any) -> str:
    """Return `value0.9` for filter.value=0.9, `norm_by_std-false` for a switch, or the label of a named bundle."""
    key = axis.rpartition(".")[2]
    if key == "seed":  # the seed of something else, such as the base model's
        key = ".".join(axis.split(".")[-2:])
    if isinstance(value, bool) or value is None:
        return readable([key, str(value).lower() if value is not None else "null"])
    if isinstance(value, float) and len(str(value)) > LONGEST_NUMBER:
        return readable([f"{key}{value:.4g}"])
    if isinstance(value, int | float):
        return readable([f"{key}{value}"])
    return readable([key, value] if "." in axis else [str(value)])
