"""The typed schema of a config: a dataclass read as an OmegaConf structured config, plus choices, ranges and plugins.

`Schema(config_type)` knows every dotted key. `check(key, value)` gives the value converted as OmegaConf converts it
(an int given for a float becomes a float), or raises SpecError with the nearest valid name. Values that already have
the declared type skip OmegaConf, because a matrix may hold ten thousand of them. The metadata that fields may carry is
listed in `plat.trainer.config`.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum
from functools import cache, lru_cache
from typing import Any, get_args, get_origin, get_type_hints

from plat.errors import SpecError
from plat.spec.leaf import Leaf, check_limits, first_line, show
from plat.suggest import mend

MISSING = "???"


@dataclass
class Schema:
    """Every key of a config_type. `defaults` is a plain nested dict; do not change it."""

    config_type: type
    defaults: dict[str, Any] = field(init=False)
    leaves: dict[str, Leaf] = field(init=False, default_factory=dict)
    sections: dict[str, type] = field(init=False, default_factory=dict)  # nested dataclasses
    free: dict[str, Leaf] = field(init=False, default_factory=dict)  # dict[str, ...] fields: any key below
    missing: tuple[str, ...] = field(init=False, default=())  # keys without a default

    def __post_init__(self) -> None:
        from omegaconf import OmegaConf
        from omegaconf.errors import OmegaConfBaseException

        try:
            typed = OmegaConf.structured(self.config_type)
            self.defaults = plain(OmegaConf.to_container(typed, enum_to_str=True))
            self._collect(self.config_type, "")
        except (OmegaConfBaseException, NameError, TypeError) as error:
            raise SpecError(
                f"{self.config_type.__name__} cannot be read as a typed config: {first_line(error)}",
                mend="use a dataclass of scalars, lists, dicts and other dataclasses",
            ) from None
        self.missing = tuple(key for key in self.leaves if select(self.defaults, key) == MISSING)
        self._holders: dict[type, Any] = {}

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
            else:
                self.leaves[key] = leaf

    def names(self) -> list[str]:
        """Every dotted key that may be set."""
        return [*self.leaves, *self.free]

    def flatten(self, value: Any, prefix: str = "") -> Iterator[tuple[str, Any]]:
        """(dotted key, value) of every leaf of a nested mapping; a mapping given for a leaf stays a value."""
        for name, inner in value.items():
            key = f"{prefix}.{name}" if prefix else str(name)
            if isinstance(inner, dict) and key not in self.leaves:
                yield from self.flatten(inner, key)
            else:
                yield key, inner

    def check(self, key: str, value: Any) -> Any:
        """The value as the config will hold it; SpecError (without `where`) when the key or the value is wrong."""
        leaf = self.leaves.get(key)
        if leaf is None:
            return self._check_other(key, value)
        kind = type(value)
        if isinstance(value, str) and "${" in value:
            raise SpecError(f"{key}: interpolations are not supported", mend="write the value itself")
        if kind is not leaf.kind or value == MISSING:
            value = self._convert(leaf, value)
        return check_limits(leaf, value)

    def _check_other(self, key: str, value: Any) -> Any:
        if key in self.sections:
            inner = [name for name in self.names() if name.startswith(key + ".")]
            raise SpecError(
                f"{key} is a group of keys, not a value (got {show(value)})", mend=mend(f"{key}.{value}", inner, "keys")
            )
        for parent in parents(key):
            if parent in self.free:
                return self._check_free(self.free[parent], key, value)
        if key in self.free:
            raise SpecError(f"{key} needs keys below it (got {show(value)})", mend=f"write {key}.NAME=VALUE")
        raise SpecError(f"unknown key {key!r}", mend=mend(key, self.names(), "keys"))

    def _check_free(self, leaf: Leaf, key: str, value: Any) -> Any:
        """A key inside a dict field: the declared value type decides; plugins check theirs later."""
        if isinstance(value, str) and "${" in value:
            raise SpecError(f"{key}: interpolations are not supported", mend="write the value itself")
        kinds = get_args(leaf.kind)
        if len(kinds) == 2 and kinds[1] is not Any:
            inner = Leaf(key, kinds[1], leaf.owner, {})
            if type(value) is not kinds[1]:
                return self._convert(inner, value, kinds[1])
        return value

    def _convert(self, leaf: Leaf, value: Any, element: Any = None) -> Any:
        """What OmegaConf makes of a value that is not exactly of the declared type."""
        from omegaconf import OmegaConf
        from omegaconf.errors import OmegaConfBaseException

        is_list = get_origin(leaf.kind) is list
        given = f"write a list: [{json.dumps(value, default=str)}]" if is_list else f"give {leaf.describe()}"
        wrong = SpecError(f"{leaf.key}: {show(value)} is not {leaf.describe()}", mend=given)
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
    """The schema of a dataclass, made once a process."""
    return Schema(config_type)


def dataclass_of(hint: Any) -> type | None:
    """The dataclass in a type hint (also in `X | None`), or None."""
    for part in (hint, *[part for part in get_args(hint) if get_origin(hint) not in (list, dict, tuple)]):
        if isinstance(part, type) and dataclasses.is_dataclass(part):
            return part
    return None


def parents(key: str) -> Iterator[str]:
    """Every dotted prefix of a key, longest first."""
    while "." in key:
        key = key.rpartition(".")[0]
        yield key


def select(values: Any, key: str) -> Any:
    """The value at a dotted key of a nested dict; None when absent."""
    for name in key.split("."):
        if not isinstance(values, Mapping) or name not in values:
            return None
        values = values[name]
    return values


def leaves(values: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Dotted key -> value, of everything in nested mappings that is no mapping; an empty mapping has nothing."""
    flat: dict[str, Any] = {}
    for name, value in values.items():
        if isinstance(value, Mapping):
            flat |= leaves(value, f"{prefix}{name}.")
        else:
            flat[f"{prefix}{name}"] = value
    return flat


def nested(key: str, value: Any) -> dict[str, Any]:
    """The nested mapping {"a": {"b": value}} for the dotted key `a.b`."""
    top, _, below = key.partition(".")
    return {top: nested(below, value) if below else value}


def plain(value: Any) -> Any:
    """Only dict, list and scalars; -0.0 becomes 0.0."""
    if isinstance(value, Mapping):
        return {str(name): plain(inner) for name, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(inner) for inner in value]
    return value + 0.0 if isinstance(value, float) else value
