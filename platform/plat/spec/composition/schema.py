"""The typed schema of a config: a dataclass as an OmegaConf structured config, plus choices, ranges and plug-ins.

Values convert as in OmegaConf (an int given for a float becomes a float). Values that already have the declared type
skip OmegaConf, because a matrix may hold ten thousand of them. `plat.trainer.config_fields` has the field metadata.
"""

from __future__ import annotations

import copy
import dataclasses
import json
from collections.abc import Iterator, Mapping
from enum import Enum
from functools import cache, lru_cache
from typing import Any, get_args, get_origin, get_type_hints

from plat.errors import SpecError, UnknownKey
from plat.spec.composition.leaf import Leaf, check_limits, first_line, show
from plat.suggest import suggest

MISSING = "???"


class Schema:
    """Every key of a config_type.

    defaults  the values of a config without overrides, as a nested plain dict: treat it as read-only
    leaves    the keys that hold a value
    sections  the keys of nested dataclasses
    free      the keys of dict[str, ...] fields: any key may lie below
    others    the key of the dict field that takes every key without a place, "" without such a field
    folders   the keys that hold a folder, relative to the experiment file's
    missing   the keys without a default
    """

    def __init__(self, config_type: type) -> None:
        from omegaconf import OmegaConf
        from omegaconf.errors import OmegaConfBaseException

        self.leaves: dict[str, Leaf] = {}
        self.sections: dict[str, type] = {}
        self.free: dict[str, Leaf] = {}
        self.others = ""
        self.folders: list[str] = []
        self._holders: dict[type, Any] = {}
        try:
            typed = OmegaConf.structured(config_type)
            self.defaults: dict[str, Any] = plain(OmegaConf.to_container(typed, enum_to_str=True))
            self._collect(config_type, "")
        except (OmegaConfBaseException, NameError, TypeError) as error:
            what = f"{config_type.__name__} cannot be read as a typed config: {first_line(error)}"
            raise SpecError(what, fix="use a dataclass of scalars, lists, dicts and other dataclasses") from None
        self.missing = tuple(key for key in self.leaves if select(self.defaults, key) == MISSING)

    def _collect(self, kind: type, prefix: str) -> None:
        hints = get_type_hints(kind)
        for spec in dataclasses.fields(kind):
            if spec.metadata.get("omegaconf_ignore"):
                continue
            key, hint = prefix + spec.name, hints[spec.name]
            nested = dataclass_of(hint)
            if nested is not None:
                self.sections[key] = nested
                self._collect(nested, key + ".")
                continue
            leaf = Leaf(key, hint, kind, spec.metadata)
            if get_origin(hint) is dict or hint is dict:
                self.free[key] = leaf
                self.others = key if spec.metadata.get("other_keys") else self.others
            else:
                self.leaves[key] = leaf
                self.folders += [key] if spec.metadata.get("folder") else []

    def names(self) -> list[str]:
        """Return every dotted key that can be set."""
        return [*self.leaves, *self.free]

    def flatten(self, value: Any, prefix: str = "") -> Iterator[tuple[str, Any]]:
        """Yield (dotted key, value) for every leaf of a nested mapping. A mapping given for a leaf stays a value."""
        for name, inner in value.items():
            key = f"{prefix}.{name}" if prefix else str(name)
            if isinstance(inner, dict) and key not in self.leaves:
                yield from self.flatten(inner, key)
            else:
                yield key, inner

    def check(self, key: str, value: Any) -> Any:
        """Return the converted value. Raises SpecError (without `where`) if the key or the value is wrong."""
        leaf = self.leaves.get(key)
        if leaf is None:
            return self._check_other(key, value)
        kind = type(value)
        if isinstance(value, str) and "${" in value:
            raise SpecError(f"{key}: interpolations are not supported", fix="write the value itself")
        if kind is not leaf.kind or value == MISSING:
            value = self._convert(leaf, value)
        return check_limits(leaf, value)

    def _check_other(self, key: str, value: Any) -> Any:
        if key in self.sections:
            inner = [name for name in self.names() if name.startswith(key + ".")]
            what = f"{key} is a group of keys, not a value (got {show(value)})"
            raise SpecError(what, fix=suggest(f"{key}.{value}", inner, "keys"))
        for parent in parents(key):
            if parent in self.free:
                return self._check_free(self.free[parent], key, value)
        if key in self.free:
            raise SpecError(f"{key} needs keys below it (got {show(value)})", fix=f"write {key}.NAME=VALUE")
        raise UnknownKey(f"unknown key {key!r}", fix=suggest(key, self.names(), "keys"))

    def _check_free(self, leaf: Leaf, key: str, value: Any) -> Any:
        """Check a key inside a dict field by the declared value type. Options of plug-ins are checked later."""
        if isinstance(value, str) and "${" in value:
            raise SpecError(f"{key}: interpolations are not supported", fix="write the value itself")
        kinds = get_args(leaf.kind)
        if len(kinds) == 2 and kinds[1] is not Any:
            inner = Leaf(key, kinds[1], leaf.owner, {})
            if type(value) is not kinds[1]:
                return self._convert(inner, value, kinds[1])
        return value

    def _convert(self, leaf: Leaf, value: Any, element: Any = None) -> Any:
        """Convert a value of another type than declared, as OmegaConf does. Raises SpecError if that fails."""
        from omegaconf import OmegaConf
        from omegaconf.errors import OmegaConfBaseException

        is_list = get_origin(leaf.kind) is list
        given = f"write a list: [{json.dumps(value, default=str)}]" if is_list else f"give {leaf.describe()}"
        if leaf.kind is str and isinstance(value, dict):  # JSON that the command line has read
            given = f"give text, quoted a second time: '{json.dumps(value, default=str)}'"
        wrong = SpecError(f"{leaf.key}: {show(value)} is not {leaf.describe()}", fix=given)
        if value == MISSING:
            raise wrong
        try:
            if element is not None:
                holder, name = OmegaConf.structured(_dict_holder(element)), "value"
            else:
                holder, name = self._holder(leaf.owner), leaf.name
            holder[name] = value
            node = holder._get_node(name)
            if OmegaConf.is_config(node):
                return OmegaConf.to_container(node, enum_to_str=True)
            converted = node._value()
            return converted.name if isinstance(converted, Enum) else converted
        except (OmegaConfBaseException, ValueError, TypeError, OverflowError):
            raise wrong from None

    def _holder(self, owner: type) -> Any:
        from omegaconf import OmegaConf

        if owner not in self._holders:
            self._holders[owner] = OmegaConf.structured(owner)
            OmegaConf.set_readonly(self._holders[owner], False)  # a frozen dataclass would not take the value
        return self._holders[owner]


@cache
def _dict_holder(kind: Any) -> type:
    return dataclasses.make_dataclass("Holder", [("value", kind, dataclasses.field(default=MISSING))])


@lru_cache(maxsize=256)
def schema_of(config_type: type) -> Schema:
    """Return the schema of a dataclass, cached per process."""
    return Schema(config_type)


def dataclass_of(hint: Any) -> type | None:
    """Return the dataclass in a type hint (also in `X | None`), or None."""
    for part in (hint, *[part for part in get_args(hint) if get_origin(hint) not in (list, dict, tuple)]):
        if isinstance(part, type) and dataclasses.is_dataclass(part):
            return part
    return None


def parents(key: str) -> Iterator[str]:
    """Yield every dotted prefix of a key, longest first."""
    while "." in key:
        key = key.rpartition(".")[0]
        yield key


def select(values: Any, key: str) -> Any:
    """Return the value at a dotted key of a nested dict (not a copy), or None if absent."""
    for name in key.split("."):
        if not isinstance(values, Mapping) or name not in values:
            return None
        values = values[name]
    return values


def leaves(values: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Return dotted key -> value for everything in nested mappings that is no mapping. Empty mappings are left out."""
    flat: dict[str, Any] = {}
    for name, value in values.items():
        if isinstance(value, Mapping):
            flat |= leaves(value, f"{prefix}{name}.")
        else:
            flat[f"{prefix}{name}"] = value
    return flat


def nested(key: str, value: Any) -> dict[str, Any]:
    """Return the nested mapping {"a": {"b": value}} for the dotted key `a.b`."""
    top, _, below = key.partition(".")
    return {top: nested(below, value) if below else value}


def merge(base: Any, delta: Any) -> Any:
    """Merge nested dicts and replace everything else, as OmegaConf.merge does. Return the result.

    If both are dicts, it is `base`, changed in place; else it is a copy of `delta`.
    """
    if not isinstance(base, dict) or not isinstance(delta, dict):
        return copy.deepcopy(delta) if isinstance(delta, (dict, list)) else delta
    for name, value in delta.items():
        base[name] = merge(base[name], value) if name in base else copy.deepcopy(value)
    return base


def merge_beside(base: Any, delta: Any) -> Any:
    """Merge as `merge`, but keep a value beside the keys below it, as of a Hydra app: under the key ""."""
    if isinstance(base, dict) and isinstance(delta, dict):
        for name, value in delta.items():
            base[name] = merge_beside(base[name], value) if name in base else copy.deepcopy(value)
        return base
    if isinstance(base, dict):
        return {**base, "": copy.deepcopy(delta)}
    return {"": base, **copy.deepcopy(delta)} if isinstance(delta, dict) else copy.deepcopy(delta)


def plain(value: Any) -> Any:
    """Convert mappings to dict with string keys, sequences to list, and -0.0 to 0.0, recursively."""
    if isinstance(value, Mapping):
        return {str(name): plain(inner) for name, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(inner) for inner in value]
    return value + 0.0 if isinstance(value, float) else value


def build(config_type: type, values: Mapping[str, Any]) -> Any:
    """Return a config_type instance made from checked plain values."""
    return _builder(config_type)(values)


@lru_cache(maxsize=256)
def _builder(config_type: type) -> Any:
    hints = get_type_hints(config_type)
    specs = [spec for spec in dataclasses.fields(config_type) if spec.init]
    makers = {spec.name: _maker(hints[spec.name]) for spec in specs if not spec.metadata.get("omegaconf_ignore")}

    def make(values: Mapping[str, Any]) -> Any:
        return config_type(**{name: makers[name](value) for name, value in values.items()})

    return make


@lru_cache(maxsize=1024)
def field_maker(config_type: type, name: str) -> Any:
    """Return the function that converts a plain value into the value of this dataclass field."""
    return _maker(get_type_hints(config_type)[name])


def _maker(hint: Any) -> Any:
    nested = dataclass_of(hint)
    if nested is not None:
        inner = _builder(nested)
        return lambda value: None if value is None else inner(value)
    enums = [part for part in (hint, *get_args(hint)) if isinstance(part, type) and issubclass(part, Enum)]
    if enums:
        return lambda value: enums[0][value] if isinstance(value, str) else value
    if hint in (int, float, str, bool):
        return lambda value: value
    return copy.deepcopy
