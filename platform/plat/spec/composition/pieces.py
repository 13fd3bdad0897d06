"""Turn overrides into checked pieces of a config.

A piece is one option of a config group, or the value of one key. It is composed and checked once, however many runs
share it; a run only chooses among pieces.
"""

from __future__ import annotations

import dataclasses
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from plat.errors import SpecError, UnknownKey
from plat.plugins.loading import published
from plat.spec.composition.conf import Conf
from plat.spec.composition.schema import Schema, merge, nested, select
from plat.spec.reading.overrides import Assignment
from plat.suggest import nearest, suggest

ROOT = "_self_"  # the target of the root values in config.yaml
# Keys of an experiment file that are no options of runs.
OF_FILES = ("title", "paper", "source", "reference", "matrix", "zip", "include", "exclude", "report", "claims")


@dataclass(frozen=True, slots=True, eq=False)
class Piece:
    """A group option or one key's value: the values it sets below each top-level key, and its source."""

    target: str  # "group:task", or the dotted key
    deltas: dict[str, Any]
    source: Assignment


class PieceMaker:
    """Maker of the pieces of one trainer. `defaults` are those of a run without overrides, in the order of merging.

    folder   the folder to which keys of folders are relative
    """

    def __init__(self, schema: Schema, conf: Conf | None, folder: Path) -> None:
        self.schema = schema
        self.folder = folder
        self.conf = conf
        self._pieces: dict[tuple[str, str], tuple[Piece, ...]] = {}
        self.overridden: set[str] = set()  # every dotted key that a piece sets directly
        self.defaults = self._default_pieces()

    def _default_pieces(self) -> dict[str, Piece]:
        """Return the pieces of a run without overrides, by target. Updating this dict keeps the order of merging."""
        folders = (Assignment(key, select(self.schema.defaults, key), "") for key in self.schema.folders)
        pieces = {piece.target: piece for folder in folders for piece in self.pieces(folder)}
        if self.conf is None:
            return pieces
        for name in self.conf.order:
            if name == ROOT:
                source = Assignment(ROOT, None, self.conf.root_file.where())
                pieces[name] = Piece(name, self._checked(self.conf.root, source), source)
            else:
                for piece in self.pieces(Assignment(name, self.conf.defaults[name], self.conf.places[name])):
                    pieces[piece.target] = piece
        return pieces

    def pieces(self, assignment: Assignment) -> tuple[Piece, ...]:
        """Return the checked pieces of one assignment; () for `trainer` if the config has no such key.

        Raises SpecError, with the assignment's position, for an unknown key or option or a wrong value.
        """
        memo = (assignment.key, f"{type(assignment.value).__name__}:{assignment.value!r}")
        if memo not in self._pieces:
            try:
                self._pieces[memo] = self._make(assignment)
            except SpecError as error:
                is_key = isinstance(error, UnknownKey)
                error.where = error.where or (assignment.key_place() if is_key else assignment.where)
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
        except UnknownKey:
            top = key.partition(".")[0]
            if self.schema.others and top not in (*self.schema.defaults, *OF_FILES):
                return self._make(dataclasses.replace(assignment, key=f"{self.schema.others}.{key}"))
            raise self._unknown(assignment) from None
        if key in self.schema.folders:
            checked = str((self.folder / checked).resolve())
        self.overridden.add(key)
        return (Piece(key, nested(key, checked), assignment),)

    def _unknown(self, assignment: Assignment) -> UnknownKey:
        """Return the error for a key that no run has."""
        key = assignment.key
        groups = self.conf.options if self.conf is not None else {}
        names = [*groups, *self.schema.names()]
        near = nearest(key, names)
        section, parent = key.partition(".")[0], key.rpartition(".")[0]
        free = next((name for name in self.schema.free if name.rpartition(".")[0] == parent), None)
        what = f"unknown key {key!r}"
        if key == "seeds" and "seed" in names and not assignment.of_axis:
            fix = "one seed: seed=3; several: 'matrix.seed=range(3)'"
        elif section in OF_FILES and not assignment.of_axis:
            fix = f"change {section} in the file; only options of runs and axes (matrix.AXIS=[...]) can be overridden"
        elif section in published("plat.trainers") and not any(name.startswith(f"{section}.") for name in names):
            fix = f"it may be an option of that trainer: add trainer={section}"
        elif parent and free is not None and near is None:  # task.size
            fix = f"if it is an option of the {parent} itself, write {free}.{key.rpartition('.')[2]}"
        elif not assignment.of_axis or parent or near is not None:
            fix = suggest(key, names, "groups and keys" if groups else "keys")
        else:  # an axis may have any name if its values list their overrides
            group = next(iter(groups), None)
            override = f"{group}: {groups[group][0]}" if group else f"{names[0]}: VALUE"
            what += ": this axis is not an option of a run, so each of its values must list its overrides"
            fix = f"write `{key}: {{{assignment.value}: {{{override}}}, ...}}`; `plat options` lists every option"
        return UnknownKey(what, fix=fix)

    def _checked(self, delta: Mapping[str, Any], source: Assignment, file: str | None = None) -> dict[str, Any]:
        """Return a nested delta with every leaf checked and converted."""
        result: dict[str, Any] = {}
        for key, value in self.schema.flatten(delta):
            try:
                merge(result, nested(key, self.schema.check(key, value)))
            except SpecError as error:
                error.where = file or source.where
                raise
        return result


def published_options(conf: Conf, schema: Schema, group: str) -> tuple[str, ...]:
    """Return the plug-ins that are valid for a config group's `name` and have no file in the group.

    Such an option sets `name` alone; the other keys of the group keep their defaults.
    """
    leaf = schema.leaves.get(f"{group}.name")
    if leaf is None or "plugin" not in leaf.metadata:
        return ()
    return tuple(name for name in published(leaf.metadata["plugin"]) if name not in conf.options[group])


def group_options(conf: Conf, schema: Schema, group: str) -> tuple[str, ...]:
    """Return every option of a config group, sorted: those with a file, and those of installed packages."""
    return tuple(sorted([*conf.options[group], *published_options(conf, schema, group)]))


def place_of(key: str, pieces: Iterable[Piece]) -> str | None:
    """Return where the last piece that sets a key, or something below it, to a value other than null was written.

    It is a `file:line:column`, or words such as "command line"; None if there is no such piece. The default option of a
    config group counts; the root values of config.yaml do not.
    """
    place = None
    for piece in pieces:
        if piece.target != ROOT and select(piece.deltas, key) is not None:
            place = piece.source.where
    return place


def by_section(chosen: Mapping[str, Piece]) -> dict[str, list[Piece]]:
    """Return section -> the pieces that set something in it, in order."""
    touching: defaultdict[str, list[Piece]] = defaultdict(list)
    for piece in chosen.values():
        for name in piece.deltas:
            touching[name].append(piece)
    return touching
