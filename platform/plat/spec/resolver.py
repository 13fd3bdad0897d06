"""From overrides to a resolved, checked config, fast enough for 100,000 runs.

A run is a choice of pieces: one option per config group and any number of key overrides. Each distinct piece is
composed by Hydra and checked against the typed schema once. A config is cut into its top-level keys; the merge, the
canonical JSON and the typed object of each are made once per distinct choice of the pieces that touch it, so that a
run costs a few dictionary look-ups. Sections are therefore shared between runs: treat a resolved config as read-only.
"""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from plat.errors import PlatError, SpecError
from plat.spec.conf import Conf, conf_of
from plat.spec.identity import canonical, identity, readable, result_affecting
from plat.spec.overrides import Assignment
from plat.spec.recorded import SAME, Recorded
from plat.spec.schema import MISSING, Schema, build, first_line, load_plugin, plain, schema_of, select
from plat.spec.suggest import mend
from plat.trainer.api import TrainerSpec


@dataclass(frozen=True, slots=True, eq=False)
class Piece:
    """A group option or one key's value: what it sets below each top-level key, and where it was written."""

    target: str  # "group:task", or the dotted key
    deltas: dict[str, Any]
    source: Assignment


@dataclass(frozen=True, slots=True)
class Section:
    """One top-level key of a resolved config."""

    value: Any
    item: Any  # the same as the trainer sees it (dataclass instance)
    text: str  # canonical `"key":value`, "" when nothing of it affects results
    plugins: tuple[tuple[str, str], ...]  # (key, version) of the plugins named in it
    label: str  # readable part of the run's name


@dataclass(frozen=True, slots=True)
class Resolved:
    id: str
    name: str
    config: dict[str, Any]
    canon: tuple[str, ...]  # what was hashed
    prepare: tuple[str, str] | None
    resources: dict[str, int]


class OtherTrainer(Exception):
    """The pieces choose a trainer other than the one whose schema they were resolved with."""

    def __init__(self, name: str, where: str | None) -> None:
        super().__init__(name)
        self.name = name
        self.where = where


class Resolver:
    """Resolves the runs of one trainer."""

    def __init__(self, spec: TrainerSpec) -> None:
        self.spec = spec
        self.schema: Schema = schema_of(spec.config_type)
        self.conf: Conf | None = conf_of(spec.conf) if spec.conf else None
        self.fields = [
            field.name for field in dataclasses.fields(spec.config_type) if field.name in self.schema.defaults
        ]
        self.sorted_fields = sorted(self.fields)
        self.options_of = {
            key: ".".join([*key.split(".")[:-1], leaf.metadata["options_of"]])
            for key, leaf in {**self.schema.free, **self.schema.leaves}.items()
            if "options_of" in leaf.metadata
        }
        self._sections: dict[tuple[Any, ...], Section] = {}
        self._pieces: dict[tuple[str, str], tuple[Piece, ...]] = {}
        self._valid = Recorded(spec.validate)
        self._facts = Recorded(spec.fingerprint)
        self._prepare = Recorded(spec.prepare or _nothing)
        self._resources = Recorded(spec.resources)
        self.defaults = self._default_pieces()

    def _default_pieces(self) -> dict[str, Piece]:
        """What is chosen when nothing is: in merge order, so that updating this dict keeps the order."""
        if self.conf is None:
            return {}
        pieces: dict[str, Piece] = {}
        self.conf.compose(self.conf.defaults.items())
        for name in self.conf.order:
            if name == "_self_":
                source = Assignment("_self_", None, self.conf.root_file.where())
                pieces[name] = Piece(name, self._checked(self.conf.root, source), source)
            else:
                for piece in self.pieces(Assignment(name, self.conf.defaults[name], self.conf.places[name])):
                    pieces[piece.target] = piece
        return pieces

    def prepare(self, assignments: Iterable[Assignment]) -> None:
        """Compose every valid group option among these in one go."""
        if self.conf is not None:
            options = self.conf.options
            self.conf.compose(
                (one.key, str(one.value))
                for one in assignments
                if one.key in options and str(one.value) in options[one.key]
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
            option = self.conf.check_option(key, value)
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
            if error.what.startswith("unknown key") and self.conf is not None:
                names = [*self.conf.options, *self.schema.names()]
                raise SpecError(error.what, mend=mend(key, names, "groups and keys")) from None
            raise
        top, *rest = key.split(".")
        for name in reversed(rest):
            checked = {name: checked}
        return (Piece(key, {top: checked}, assignment),)

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

    def resolve(self, chosen: Mapping[str, Piece], trainer: str, place: str) -> Resolved:
        """The config of one choice of pieces and its identity; SpecError, at `place` or a piece's, if it cannot run."""
        touching: dict[str, list[Piece]] = {}
        for piece in chosen.values():
            for top in piece.deltas:
                if top in touching:
                    touching[top].append(piece)
                else:
                    touching[top] = [piece]
        sections = {name: self._section(name, touching) for name in self.fields}
        config = {name: section.value for name, section in sections.items()}
        if config.get("trainer", trainer) not in (trainer, self.spec.name):
            raise OtherTrainer(config["trainer"], self._place("trainer", chosen.values()))
        item = self.spec.config_type(**{name: section.item for name, section in sections.items()})
        try:
            valid = item
            if self._valid(item, sections) is not SAME:
                valid = self.spec.validate(item)
                sections = self._normalised(valid, sections)
                config = {name: section.value for name, section in sections.items()}
            facts = self._facts(valid, sections)
            prepare = self._prepare(valid, sections)
            resources = self._resources(valid, sections)
        except SpecError as error:
            raise self._located(error, chosen, place) from None
        plugins = [pair for section in sections.values() for pair in section.plugins]
        fragments = [text for name in self.sorted_fields if (text := sections[name].text)]
        extra = canonical([self.spec.name, self.spec.version, sorted(plugins), facts])
        identifier = identity(fragments, extra)
        labels = [section.label for section in sections.values() if section.label] or [readable([self.spec.name])]
        if "seed" in config:
            labels.append(f"s{config['seed']}")
        name = "-".join(labels) + "-" + identifier[:8]
        return Resolved(identifier, name, config, (*fragments, extra), prepare, resources)

    def _section(self, name: str, touching: Mapping[str, list[Piece]]) -> Section:
        pieces = tuple(touching.get(name, ()))
        sibling = self.options_of.get(name)  # options at the root depend on a sibling key
        others = tuple(touching.get(sibling, ())) if sibling else ()
        memo = (name, pieces, others)
        section = self._sections.get(memo)
        if section is None:
            value = self._merged(name, pieces)
            around = {name: value} if not sibling else {sibling: self._merged(sibling, others), name: value}
            section = self._sections[memo] = self._finish(name, around, pieces + others)
        return section

    def _merged(self, name: str, pieces: Iterable[Piece]) -> Any:
        value = copy.deepcopy(self.schema.defaults[name])
        for piece in pieces:
            value = merge(value, piece.deltas[name])
        return value

    def _finish(self, name: str, around: dict[str, Any], pieces: tuple[Piece, ...]) -> Section:
        """Fill in plugin options, then make the typed object and the canonical text."""
        plugins: list[tuple[str, str]] = []
        legacy = dict(self.spec.legacy)
        for key, selector in self.options_of.items():
            if key.split(".")[0] == name and select(around, selector) is not None:
                plugin = self._plugin(selector, around)
                plugins.append((selector, str(getattr(plugin, "version", ""))))
                legacy.update({f"{key}.{option}": old for option, old in getattr(plugin, "legacy", {}).items()})
                *path, last = key.split(".")
                below = around
                for part in path:
                    below = below[part]
                below[last] = self._plugin_options(plugin, key, below, pieces)
        value = around[name]
        for key in self.schema.missing:
            if key.split(".")[0] == name and select(around, key) == MISSING:
                raise SpecError(f"{key} has no value", mend=f"give it one: {key}=...")
        kind = self.schema.sections.get(name)
        item = (
            build(kind, value)
            if kind is not None and value is not None
            else build_leaf(self.spec.config_type, name, value)
        )
        kept, affecting = result_affecting(name, value, self.spec.operational_keys, legacy)
        label = value["name"] if isinstance(value, dict) and isinstance(value.get("name"), str) else ""
        text = canonical(name) + ":" + canonical(affecting) if kept else ""
        return Section(value, item, text, tuple(plugins), readable([label]) if label else "")

    def _plugin(self, selector: str, around: dict[str, Any]) -> Any:
        leaf = self.schema.leaves[selector]
        return load_plugin(leaf.metadata["plugin"], select(around, selector))

    def _plugin_options(
        self, plugin: Any, key: str, around: dict[str, Any], pieces: tuple[Piece, ...]
    ) -> dict[str, Any]:
        """A plugin's options with its own defaults filled in, checked by its config_type.

        An option that the section around has too (`turns`) is the section's: it is said in one place only.
        """
        schema = schema_of(plugin.config_type)
        options = around[key.rpartition(".")[2]] or {}
        values = copy.deepcopy(schema.defaults)
        shared = {name: around[name] for name in schema.leaves if name in around}
        for name in shared.keys() & options.keys():
            if options[name] != shared[name]:
                own = f"{key.rpartition('.')[0]}.{name}".lstrip(".")
                place = self._place(f"{key}.{name}", pieces)
                raise SpecError(f"{key}.{name} and {own} differ", where=place, mend=f"set {own} only")
        options = {**options, **shared}
        for name, given in schema.flatten(options):
            try:
                values = merge(values, nested(name, schema.check(name, given)))
            except SpecError as error:
                if error.what.startswith("unknown key"):
                    error = SpecError(
                        f"{plugin.name} has no option {name!r}", mend=mend(name, schema.names(), "options")
                    )
                elif error.what.startswith(name):
                    error = SpecError(f"{key}.{error.what}", mend=error.mend)
                error.where = self._place(f"{key}.{name}", pieces)
                raise error from None
        try:
            build(plugin.config_type, values)
        except Exception as error:  # a dataclass of another package may raise anything in __post_init__
            what = getattr(error, "what", None) or first_line(error)
            raise SpecError(
                f"{plugin.name}: {what}",
                where=self._place(key, pieces),
                mend=getattr(error, "mend", None) or f"correct the options in {key}",
            ) from None
        return values

    def _place(self, key: str, pieces: Iterable[Piece]) -> str | None:
        """Where the last piece that sets a key, or something below it, was written."""
        place = None
        for piece in pieces:
            found = select(piece.deltas, key)
            if found is not None and piece.target != "_self_":
                place = piece.source.where
        return place

    def _located(self, error: SpecError, chosen: Mapping[str, Piece], place: str) -> SpecError:
        """A trainer's objection names a key; say where the key was set and in which run."""
        if type(error) is not SpecError and not isinstance(error, PlatError):
            return error
        key = error.where
        spot = self._place(key, chosen.values()) if key else None
        error.where = f"{spot} ({key}; {place})" if spot else f"{place} ({key})" if key else place
        return error

    def _normalised(self, valid: Any, sections: Mapping[str, Section]) -> dict[str, Section]:
        """Sections again, after a trainer's `validate` gave back another config."""
        result = {}
        for name, section in sections.items():
            item = getattr(valid, name)
            if item is section.item:
                result[name] = section
                continue
            value = plain(_as_plain(item))
            memo = (name, section.plugins, canonical(value))
            if memo not in self._sections:  # kept, because `Recorded` knows sections by their identity
                kept, affecting = result_affecting(name, value, self.spec.operational_keys, self.spec.legacy)
                text = canonical(name) + ":" + canonical(affecting) if kept else ""
                self._sections[memo] = Section(value, item, text, section.plugins, section.label)
            result[name] = self._sections[memo]
        return result


def merge(base: Any, delta: Any) -> Any:
    """Nested dicts are merged, everything else is replaced (as OmegaConf.merge does); `base` is changed in place."""
    if not isinstance(base, dict) or not isinstance(delta, dict):
        return copy.deepcopy(delta) if isinstance(delta, (dict, list)) else delta
    for name, value in delta.items():
        base[name] = merge(base[name], value) if name in base else copy.deepcopy(value)
    return base


def nested(key: str, value: Any) -> dict[str, Any]:
    """{"a": {"b": value}} of the dotted key a.b."""
    for name in reversed(key.split(".")):
        value = {name: value}
    return value


def _nothing(config: Any) -> None:
    """The `prepare` of a trainer that shares no work between runs."""


def build_leaf(config_type: type, name: str, value: Any) -> Any:
    """One field's value as its dataclass holds it (an Enum member for its name)."""
    from plat.spec.schema import field_maker

    return field_maker(config_type, name)(value)


def _as_plain(item: Any) -> Any:
    from enum import Enum

    if dataclasses.is_dataclass(item) and not isinstance(item, type):
        return {field.name: _as_plain(getattr(item, field.name)) for field in dataclasses.fields(item)}
    if isinstance(item, dict):
        return {name: _as_plain(value) for name, value in item.items()}
    if isinstance(item, (list, tuple)):
        return [_as_plain(value) for value in item]
    return item.name if isinstance(item, Enum) else item
