"""Cache a trainer's pure functions of the config by the top-level keys that they read.

Ten thousand runs that differ only in the seed share one base model, but only the trainer knows that its fingerprint
does not depend on the seed. `Recorded(function)` notes which top-level keys the function reads, and returns the cached
result when those keys hold the same objects again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from typing import Any

Function = Callable[[Any], Any]
_HARMLESS = {"__class__", "__dataclass_fields__"}
SAME = object()  # the result of a function that returned its argument
NEW = object()  # there is no cached result


class Recorded:
    """A pure function of a config that caches its results.

    Call it with `config`, an object of a dataclass or a plain dict, and `sections`, which maps each top-level key to an
    object that identifies its value. A call returns the function's result, or the marker SAME if the function returned
    the dataclass object that it was given. Results are shared between runs: treat them as read-only.

    Keep the objects in `sections` alive as long as the Recorded, because the cache compares them by `id()`.
    """

    def __init__(self, function: Function) -> None:
        self.function = function
        self.results: dict[tuple[str, ...], dict[tuple[int, ...], Any]] = {}

    def __call__(self, config: Any, sections: Mapping[str, Any]) -> Any:
        known = self.recall(sections)
        if known is not NEW:
            return known
        result, names = _watch(self.function, config, sections)
        self.results.setdefault(names, {})[tuple(id(sections[name]) for name in names)] = result
        return result

    def recall(self, sections: Mapping[str, Any]) -> Any:
        """Return the cached result for these sections, or NEW if there is none. Needs no config."""
        for names, known in self.results.items():
            key = tuple([id(sections[name]) for name in names])
            if key in known:
                return known[key]
        return NEW


def _watch(function: Function, config: Any, sections: Mapping[str, Any]) -> tuple[Any, tuple[str, ...]]:
    """Return the result and the top-level keys that were read (all of them if that cannot be determined)."""
    all_names = tuple(sections)
    if type(config) is dict:
        watching = _WatchingMapping(config)
        result = function(watching)
        return result, all_names if watching.whole else tuple(name for name in all_names if name in watching.read)
    try:
        watched: Any = object.__new__(_watching(type(config)))  # type: ignore[arg-type]
        object.__getattribute__(watched, "__dict__").update(config.__dict__)
    except (TypeError, AttributeError):
        result = function(config)
        return SAME if result is config else result, all_names
    read: set[str] = set()
    object.__getattribute__(watched, "__dict__")["_plat_read"] = read
    result = function(watched)
    if result is watched:
        result = SAME
    whole = any(name.startswith("__") and name not in _HARMLESS for name in read)  # e.g. vars(), pickle, deepcopy
    return result, all_names if whole else tuple(name for name in all_names if name in read)


class _WatchingMapping(Mapping[str, Any]):
    """A dict that notes every key that is read. `whole` is set when it is iterated or a missing key is read."""

    def __init__(self, config: Mapping[str, Any]) -> None:
        self._config = config
        self.read: set[str] = set()
        self.whole = False

    def __getitem__(self, name: str) -> Any:
        self.read.add(name)
        self.whole |= name not in self._config
        return self._config[name]

    def __iter__(self) -> Iterator[str]:
        self.whole = True
        return iter(self._config)

    def __len__(self) -> int:
        self.whole = True
        return len(self._config)


@lru_cache(maxsize=64)
def _watching(kind: Any) -> type:
    """Return a subclass that notes every attribute read."""

    def __getattribute__(self: Any, name: str) -> Any:
        read = object.__getattribute__(self, "__dict__").get("_plat_read")  # a copy that the function made has none
        if read is not None:
            read.add(name)
        return kind.__getattribute__(self, name)

    return type(kind.__name__, (kind,), {"__getattribute__": __getattribute__, "__module__": kind.__module__})
