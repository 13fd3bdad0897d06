"""The sections (top-level keys) of a resolved config. Each is made once per distinct choice of its pieces.

Making a section merges its pieces, fills in the options of the plugins that it names, builds the object that the
trainer will see, and writes the canonical JSON that is hashed. Sections are shared between runs: treat them as
read-only.
"""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any

from plat.errors import SpecError
from plat.spec.identity import canonical, left_out_keys, readable, result_affecting
from plat.spec.leaf import first_line
from plat.spec.pieces import Piece, place_of
from plat.spec.schema import MISSING, Schema, nested, plain, schema_of, select
from plat.spec.typed import build, field_maker
from plat.suggest import mend
from plat.trainer.api import TrainerSpec
from plat.trainer.plugin_code import code_facts
from plat.trainer.plugins import load_plugin


@dataclass(frozen=True, slots=True)
class Section:
    """One top-level key of a resolved config."""

    value: Any
    item: Any  # the same value as the trainer sees it (a dataclass instance)
    text: str  # canonical `"key":value`, "" when nothing of it affects results
    left_out: tuple[str, ...]  # dotted keys that are not in the text
    plugins: tuple[tuple[str, str], ...]  # (key, version), and (key, code) of unreleased ones, of the plugins in it
    label: str  # readable part of the run's name
    legacy: Mapping[str, Any]


class SectionMaker:
    """Makes the sections of one trainer's configs."""

    def __init__(self, spec: TrainerSpec, schema: Schema) -> None:
        self.spec = spec
        self.schema = schema
        self.options_of = {
            key: ".".join([*key.split(".")[:-1], leaf.metadata["options_of"]])
            for key, leaf in {**schema.free, **schema.leaves}.items()
            if "options_of" in leaf.metadata
        }
        self.noting: set[str] = set()  # names of sections that have plugins, or left something out of their text
        self._sections: dict[tuple[Any, ...], Section] = {}

    def section(self, name: str, touching: Mapping[str, list[Piece]]) -> Section:
        """The section of that name, made of the pieces that set something in it."""
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
                plugins += code_facts(selector, plugin)
                legacy.update({f"{key}.{option}": old for option, old in getattr(plugin, "legacy", {}).items()})
                *path, last = key.split(".")
                below = around
                for part in path:
                    below = below[part]
                below[last] = self._plugin_options(plugin, key, below, pieces)
        for key in self.schema.missing:
            if key.split(".")[0] == name and select(around, key) == MISSING:
                raise SpecError(f"{key} has no value", mend=f"give it one: {key}=...")
        value, kind = around[name], self.schema.sections.get(name)
        if kind is not None and value is not None:
            item = build(kind, value)
        else:
            item = field_maker(self.spec.config_type, name)(value)
        return self._section(name, value, item, tuple(plugins), legacy)

    def _section(
        self, name: str, value: Any, item: Any, plugins: tuple[tuple[str, str], ...], legacy: Mapping[str, Any]
    ) -> Section:
        kept, affecting = result_affecting(name, value, self.spec.operational_keys, legacy)
        text = canonical(name) + ":" + canonical(affecting) if kept else ""
        label = value["name"] if isinstance(value, dict) and isinstance(value.get("name"), str) else ""
        left_out = left_out_keys(name, value, kept, affecting)
        if plugins or left_out:
            self.noting.add(name)
        return Section(value, item, text, left_out, plugins, readable([label]) if label else "", legacy)

    def _plugin(self, selector: str, around: dict[str, Any]) -> Any:
        leaf = self.schema.leaves[selector]
        return load_plugin(leaf.metadata["plugin"], select(around, selector))

    def _plugin_options(
        self, plugin: Any, key: str, around: dict[str, Any], pieces: tuple[Piece, ...]
    ) -> dict[str, Any]:
        """A plugin's options with its own defaults filled in, checked by its config_type.

        An option that the section around the options has as well (such as `turns`) takes the section's value. Setting
        both to different values is a SpecError.
        """
        schema = schema_of(plugin.config_type)
        options = around[key.rpartition(".")[2]] or {}
        values = copy.deepcopy(schema.defaults)
        shared = {name: around[name] for name in schema.leaves if name in around}
        for name in shared.keys() & options.keys():
            if options[name] != shared[name]:
                own = f"{key.rpartition('.')[0]}.{name}".lstrip(".")
                place = place_of(f"{key}.{name}", pieces)
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
                error.where = place_of(f"{key}.{name}", pieces)
                raise error from None
        try:
            build(plugin.config_type, values)
        except Exception as error:  # a dataclass of another package may raise anything in __post_init__
            what = getattr(error, "what", None) or first_line(error)
            raise SpecError(
                f"{plugin.name}: {what}",
                where=place_of(key, pieces),
                mend=getattr(error, "mend", None) or f"correct the options in {key}",
            ) from None
        return values

    def normalised(self, valid: Any, sections: Mapping[str, Section]) -> dict[str, Section]:
        """The sections of the config that a trainer's `validate` returned in place of the one it was given."""
        result = {}
        for name, section in sections.items():
            item = getattr(valid, name)
            if item is section.item:
                result[name] = section
                continue
            value = plain(_as_plain(item))
            memo = (name, section.plugins, canonical(value))
            if memo not in self._sections:  # kept, because `Recorded` knows sections by their identity
                self._sections[memo] = self._section(name, value, item, section.plugins, section.legacy)
            result[name] = self._sections[memo]
        return result


def merge(base: Any, delta: Any) -> Any:
    """Nested dicts are merged, everything else is replaced (as OmegaConf.merge does); `base` is changed in place."""
    if not isinstance(base, dict) or not isinstance(delta, dict):
        return copy.deepcopy(delta) if isinstance(delta, (dict, list)) else delta
    for name, value in delta.items():
        base[name] = merge(base[name], value) if name in base else copy.deepcopy(value)
    return base


def _as_plain(item: Any) -> Any:
    if dataclasses.is_dataclass(item) and not isinstance(item, type):
        return {field.name: _as_plain(getattr(item, field.name)) for field in dataclasses.fields(item)}
    if isinstance(item, dict):
        return {name: _as_plain(value) for name, value in item.items()}
    if isinstance(item, (list, tuple)):
        return [_as_plain(value) for value in item]
    return item.name if isinstance(item, Enum) else item
