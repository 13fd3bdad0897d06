"""Overrides as checked pieces of a config.

A piece is one option of a config group, or the value of one key. Hydra composes it and the typed schema checks it once,
however many runs it is part of; a run then only chooses among pieces.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from plat.errors import SpecError
from plat.spec.conf import Conf
from plat.spec.other_names import hint
from plat.spec.overrides import Assignment
from plat.spec.schema import Schema, nested, select
from plat.suggest import mend, nearest
from plat.trainer.plugins import published

ROOT = "_self_"  # the target of the root values in config.yaml
# Keys of an experiment file, which are no options of runs.
OF_FILES = ("title", "paper", "source", "reference", "matrix", "zip", "include", "exclude", "report", "claims")


@dataclass(frozen=True, slots=True, eq=False)
class Piece:
    """A group option or one key's value: what it sets below each top-level key, and where it was written."""

    target: str  # "group:task", or the dotted key
    deltas: dict[str, Any]
    source: Assignment


class PieceMaker:
    """Makes the pieces of one trainer. `defaults` are those of a run without overrides, in the order of merging."""

    def __init__(self, schema: Schema, conf: Conf | None) -> None:
        self.schema = schema
        self.conf = conf
        self._pieces: dict[tuple[str, str], tuple[Piece, ...]] = {}
        self.overridden: set[str] = set()  # every dotted key that a piece sets by itself
        self.defaults = self._default_pieces()

    def _default_pieces(self) -> dict[str, Piece]:
        """The pieces of a run without overrides, by target. Updating this dict keeps the order of merging."""
        if self.conf is None:
            return {}
        pieces: dict[str, Piece] = {}
        self.conf.compose(self.conf.defaults.items())
        for name in self.conf.order:
            if name == ROOT:
                source = Assignment(ROOT, None, self.conf.root_file.where())
                pieces[name] = Piece(name, self._checked(self.conf.root, source), source)
            else:
                for piece in self.pieces(Assignment(name, self.conf.defaults[name], self.conf.places[name])):
                    pieces[piece.target] = piece
        return pieces

    def compose(self, assignments: Iterable[Assignment]) -> None:
        """Compose every valid group option among these assignments in one call of Hydra."""
        if self.conf is not None:
            options = self.conf.options
            self.conf.compose(
                (assignment.key, str(assignment.value))
                for assignment in assignments
                if assignment.key in options and str(assignment.value) in options[assignment.key]
            )

    def pieces(self, assignment: Assignment) -> tuple[Piece, ...]:
        """The checked pieces of one assignment (none for a `trainer` that the config does not hold)."""
        memo = (assignment.key, f"{type(assignment.value).__name__}:{assignment.value!r}")
        if memo not in self._pieces:
            try:
                self._pieces[memo] = self._make(assignment)
            except SpecError as error:
                unknown = error.what.startswith("unknown key")
                error.where = error.where or (assignment.key_place() if unknown else assignment.where)
                raise
        return self._pieces[memo]

    def _make(self, assignment: Assignment) -> tuple[Piece, ...]:
        key, value = assignment.key, assignment.value
        if self.conf is not None and key in self.conf.options and not isinstance(value, dict):
            if value in published_options(self.conf, self.schema, key):
                return (Piece(f"group:{key}", {key: {"name": value}}, assignment),)
            option = self.conf.check_option(key, value, group_options(self.conf, self.schema, key))
            delta = self._checked(self.conf.delta(key, option), assignment, str(self.conf.option_file(key, option)))
            return (Piece(f"group:{key}", delta, assignment),)
        if key == "trainer" and key not in self.schema.leaves:
            return ()
        if isinstance(value, dict) and key not in self.schema.leaves:
            flat = self.schema.flatten(value, key)
            return tuple(
                piece
                for name, inner in flat
                for piece in self._make(dataclasses.replace(assignment, key=name, value=inner))
            )
        try:
            checked = self.schema.check(key, value)
        except SpecError as error:
            if error.what.startswith("unknown key"):
                raise self._unknown(assignment) from None
            raise
        self.overridden.add(key)
        return (Piece(key, nested(key, checked), assignment),)

    def _unknown(self, assignment: Assignment) -> SpecError:
        """What to say of a key that no run has. An axis may have any name, if its values say what they stand for."""
        key = assignment.key
        groups = self.conf.options if self.conf is not None else {}
        names = [*groups, *self.schema.names()]
        kind = "groups and keys" if groups else "keys"
        if key == "seeds" and "seed" in names and not assignment.of_axis:
            return SpecError("unknown key 'seeds'", mend="one seed: seed=3; several: 'matrix.seed=range(3)'")
        section = key.partition(".")[0]
        if section in OF_FILES and not assignment.of_axis:
            mended = (
                f"{section} is changed in the file; an override is an option of runs, or an axis: matrix.AXIS=[...]"
            )
            return SpecError(f"unknown key {key!r}", mend=mended)
        trainer = section
        if trainer in published("plat.trainers") and not any(name.startswith(f"{trainer}.") for name in names):
            return SpecError(f"unknown key {key!r}", mend=f"it may be an option of that trainer: add trainer={trainer}")
        if (known_elsewhere := hint(key, assignment.value, names)) is not None:
            return SpecError(f"unknown key {key!r}", mend=known_elsewhere)
        path, _, last = key.rpartition(".")
        free = next((name for name in self.schema.free if name.rpartition(".")[0] == path), None)
        if path and free is not None and nearest(key, names) is None:  # task.size
            return SpecError(f"unknown key {key!r}", mend=f"if it is an option of the {path} itself: {free}.{last}")
        if not assignment.of_axis or "." in key or nearest(key, names) is not None:
            return SpecError(f"unknown key {key!r}", mend=mend(key, names, kind))
        group = next(iter(groups), None)
        override = f"{group}: {groups[group][0]}" if group else f"{names[0]}: VALUE"
        return SpecError(
            f"unknown key {key!r}: this axis is no option of a run, so its values need the overrides they stand for",
            mend=f"write `{key}: {{{assignment.value}: {{{override}}}, ...}}`; `plat options` lists every option",
        )

    def _checked(self, delta: Mapping[str, Any], source: Assignment, file: str | None = None) -> dict[str, Any]:
        """A nested delta with every leaf checked and converted."""
        result: dict[str, Any] = {}
        for key, value in self.schema.flatten(delta):
            try:
                value = self.schema.check(key, value)
            except SpecError as error:
                error.where = file or source.where
                raise
            below = result
            *path, last = key.split(".")
            for name in path:
                below = below.setdefault(name, {})
            below[last] = value
        return result


def published_options(conf: Conf, schema: Schema, group: str) -> tuple[str, ...]:
    """What installed packages add to a config group: the plug-ins that its `name` may name and it has no file for.

    Such an option sets `name` alone; the other keys of the group keep the defaults of their schema.
    """
    leaf = schema.leaves.get(f"{group}.name")
    if leaf is None or "plugin" not in leaf.metadata:
        return ()
    return tuple(name for name in published(leaf.metadata["plugin"]) if name not in conf.options[group])


def group_options(conf: Conf, schema: Schema, group: str) -> tuple[str, ...]:
    """Every option of a config group, sorted: those with a file, and those that installed packages add."""
    return tuple(sorted([*conf.options[group], *published_options(conf, schema, group)]))


def place_of(key: str, pieces: Iterable[Piece]) -> str | None:
    """Where the last piece that sets a key, or something below it, was written; None when only defaults do."""
    place = None
    for piece in pieces:
        if piece.target != ROOT and select(piece.deltas, key) is not None:
            place = piece.source.where
    return place


def by_section(chosen: Mapping[str, Piece]) -> dict[str, list[Piece]]:
    """Section -> the pieces that set something in it, in order."""
    touching: dict[str, list[Piece]] = {}
    for piece in chosen.values():
        for name in piece.deltas:
            touching.setdefault(name, []).append(piece)
    return touching
