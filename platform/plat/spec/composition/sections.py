"""Make the sections (top-level keys) of resolved configs, each once per distinct choice of its pieces.

Making a section merges its pieces, fills in plug-in options, builds the object that the trainer sees, and writes the
canonical JSON that is hashed. Runs share sections: treat them as read-only.
"""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any

from plat.errors import SpecError, UnknownKey
from plat.plugins.loading import load_choice
from plat.plugins.plugin_code import code_facts
from plat.spec.composition.leaf import first_line
from plat.spec.composition.pieces import Piece, place_of
from plat.spec.composition.schema import (
    MISSING,
    Schema,
    build,
    field_maker,
    merge,
    merge_beside,
    nested,
    plain,
    schema_of,
    select,
)
from plat.spec.identity.run_identity import canonical, left_out_keys, readable, result_affecting
from plat.suggest import suggest
from plat.trainer.api import Trainer


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
    """Maker of the sections of one trainer's configs; `names` are the top-level keys."""

    def __init__(self, spec: Trainer, schema: Schema, names: Iterable[str]) -> None:
        self.spec = spec
        self.schema = schema
        self.options_of = {
            key: ".".join([*key.split(".")[:-1], leaf.metadata["options_of"]])
            for key, leaf in {**schema.free, **schema.leaves}.items()
            if "options_of" in leaf.metadata
        }
        self._made: dict[str, dict[tuple[Any, ...], Section]] = {name: {} for name in names}  # by name, then by pieces

    def all(self, touching: Mapping[str, list[Piece]]) -> dict[str, Section]:
        """Return every section by name: its defaults, changed by the pieces that set something in it.

        touching  section -> its pieces, in order; sections without pieces may be absent

        Equal sections are shared between runs: do not change them. Raises SpecError if a required key has no value, or
        an option of a plug-in is wrong.
        """
        return {
            name: made.get(tuple(touching.get(name, ()))) or self.section(name, touching)
            for name, made in self._made.items()
        }

    def section(self, name: str, touching: Mapping[str, list[Piece]]) -> Section:
        """Return the section of this name as `all` does: shared between runs, and with the same errors."""
        pieces = tuple(touching.get(name, ()))
        sibling = self.options_of.get(name)  # options at the root depend on a sibling key
        others = tuple(touching.get(sibling, ())) if sibling else ()
        memo = (pieces, others) if sibling else pieces
        section = self._made[name].get(memo)
        if section is None:
            value = self._merged(name, pieces)
            around = {name: value} if not sibling else {sibling: self._merged(sibling, others), name: value}
            section = self._made[name][memo] = self._finish(name, around, pieces + others)
        return section

    def _merged(self, name: str, pieces: Iterable[Piece]) -> Any:
        value = copy.deepcopy(self.schema.defaults[name])
        merged = merge_beside if name == self.schema.others else merge
        for piece in pieces:
            value = merged(value, piece.deltas[name])
        return value

    def _finish(self, name: str, around: dict[str, Any], pieces: tuple[Piece, ...]) -> Section:
        """Fill in plug-in options, then make the typed object and the canonical text."""
        plugins: list[tuple[str, str]] = []
        legacy = dict(self.spec.legacy)
        for key, selector in self.options_of.items():
            chosen = select(around, selector)
            if key.split(".")[0] == name and chosen is not None:
                plugin = load_choice(self.schema.leaves[selector].metadata["plugin"], chosen)
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
                raise SpecError(f"{key} has no value", fix=f"give it one: {key}=...")
        item = field_maker(self.spec.config_type, name)(around[name])
        return self._section(name, around[name], item, tuple(plugins), legacy)

    def _section(
        self, name: str, value: Any, item: Any, plugins: tuple[tuple[str, str], ...], legacy: Mapping[str, Any]
    ) -> Section:
        kept, affecting = result_affecting(name, value, self.spec.operational_keys, legacy)
        text = canonical(name) + ":" + canonical(affecting) if kept else ""
        label = value["name"] if isinstance(value, dict) and isinstance(value.get("name"), str) else ""
        left_out = left_out_keys(name, value, kept, affecting)
        return Section(value, item, text, left_out, plugins, readable([label]) if label else "", legacy)

    def _plugin_options(
        self, plugin: Any, key: str, around: dict[str, Any], pieces: tuple[Piece, ...]
    ) -> dict[str, Any]:
        """Return a plug-in's options with its defaults filled in, checked by its config_type.

        An option that also exists in the surrounding section (such as `turns`) takes the section's value. Raises
        SpecError if both are set to different values.
        """
        schema = schema_of(plugin.config_type)
        options = around[key.rpartition(".")[2]] or {}
        values = copy.deepcopy(schema.defaults)
        shared = {name: around[name] for name in schema.leaves if name in around}
        for name in shared.keys() & options.keys():
            if options[name] != shared[name]:
                own = f"{key.rpartition('.')[0]}.{name}".lstrip(".")
                place = place_of(f"{key}.{name}", pieces)
                raise SpecError(f"{key}.{name} and {own} differ", where=place, fix=f"set {own} only")
        options = {**options, **shared}
        for name, given in schema.flatten(options):
            try:
                values = merge(values, nested(name, schema.check(name, given)))
            except SpecError as error:
                where = place_of(f"{key}.{name}", pieces)
                if isinstance(error, UnknownKey):
                    fix = suggest(name, schema.names(), "options")
                    raise UnknownKey(f"{plugin.name} has no option {name!r}", where=where, fix=fix) from None
                raise SpecError(f"{key}.{error.what}", where=where, fix=error.fix) from None
        try:
            build(plugin.config_type, values)
        except Exception as error:  # a dataclass of another package may raise anything in __post_init__
            what = getattr(error, "what", None) or first_line(error)
            raise SpecError(
                f"{plugin.name}: {str(what).removeprefix(f'{plugin.name}: ')}",
                where=place_of(key, pieces),
                fix=getattr(error, "fix", None) or f"correct the options in {key}",
            ) from None
        return values

    def normalised(self, valid: Any, sections: Mapping[str, Section]) -> dict[str, Section]:
        """Return the sections of the config that a trainer's `validate` returned instead of its argument."""
        result = {}
        for name, section in sections.items():
            item = getattr(valid, name)
            if item is section.item:
                result[name] = section
                continue
            value = plain(_as_plain(item))
            made, memo = self._made[name], (section.plugins, canonical(value))
            if memo not in made:  # kept, because `Recorded` knows sections by their identity
                made[memo] = self._section(name, value, item, section.plugins, section.legacy)
            result[name] = made[memo]
        return result


def _as_plain(item: Any) -> Any:
    if dataclasses.is_dataclass(item) and not isinstance(item, type):
        return {field.name: _as_plain(getattr(item, field.name)) for field in dataclasses.fields(item)}
    if isinstance(item, dict):
        return {name: _as_plain(value) for name, value in item.items()}
    if isinstance(item, (list, tuple)):
        return [_as_plain(value) for value in item]
    return item.name if isinstance(item, Enum) else item
