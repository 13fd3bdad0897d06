"""What a run is called: the hash of everything that can change its result.

The id is the first 64 bits of the SHA-256 of canonical JSON (sorted keys, shortest spelling of floats) of the number of
this scheme, the trainer's name and version, the resolved config, the versions of the plugins it names, and the
trainer's fingerprint (e.g. the content of the base model). Left out of the config: operational keys, keys at their
`legacy` value, and mappings that are empty after that, so that a new option changes no old id. A key that the trainer
says has no effect in a config has its groups' value there (`plat.spec.resolver`), so no override of it changes an id.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any

SCHEME = 2  # of everything that this file says; raise it when the same run would get another id
ID_DIGITS = 16
NAME_LIMIT = 80
_UNSAFE = re.compile(r"[^a-z0-9._]+")


def canonical(value: Any) -> str:
    """The one JSON spelling of a plain value."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"))


def is_operational(key: str, operational: Iterable[str]) -> bool:
    """Whether a dotted key is one of the operational keys, or lies below one."""
    return key in operational or key.startswith(_prefixes(tuple(operational)))


def result_affecting(key: str, value: Any, operational: tuple[str, ...], legacy: Mapping[str, Any]) -> tuple[bool, Any]:
    """(kept, value without operational keys, legacy values and empty mappings) of the config below a dotted key."""
    if is_operational(key, operational):
        return False, None
    if key in legacy and canonical(legacy[key]) == canonical(value):
        return False, None
    if not isinstance(value, dict):
        return True, value
    inner = {}
    for name, below in value.items():
        kept, what = result_affecting(f"{key}.{name}" if key else name, below, operational, legacy)
        if kept:
            inner[name] = what
    return bool(inner), inner


@lru_cache
def _prefixes(keys: tuple[str, ...]) -> tuple[str, ...]:
    """What the keys below these keys begin with."""
    return tuple(f"{key}." for key in keys)


def identity(fragments: Iterable[str], facts: str) -> str:
    """The id from the canonical config (sorted `"key":value` texts) and the canonical JSON of everything else."""
    text = '{"config":{' + ",".join(fragments) + '},"facts":' + facts + ',"scheme":' + str(SCHEME) + "}"
    return hashlib.sha256(text.encode()).hexdigest()[:ID_DIGITS]


def recomputed(
    config: Mapping[str, Any],
    trainer: str,
    version: str,
    fingerprint: Any,
    plugins: Iterable[Any],
    left_out: Iterable[str],
) -> str:
    """The id of a recorded run under this scheme.

    plugins   [key of the config, version] of the plugins that the config names
    left_out  dotted keys of the config that are not hashed, as `left_out_keys` gave them when the run was made
    """
    keys = tuple(left_out)
    fragments = []
    for name in sorted(config):
        kept, affecting = result_affecting(name, config[name], keys, {})
        if kept:
            fragments.append(canonical(name) + ":" + canonical(affecting))
    return identity(fragments, canonical([trainer, version, sorted(plugins), fingerprint]))


def left_out_keys(key: str, value: Any, kept: bool, affecting: Any) -> tuple[str, ...]:
    """The dotted keys, at and below a key, that `result_affecting` left out; empty mappings go without saying."""
    if not isinstance(value, dict):
        return () if kept else (key,)
    inside = affecting or {}
    parts = (left_out_keys(f"{key}.{name}", below, name in inside, inside.get(name)) for name, below in value.items())
    return tuple(itertools.chain.from_iterable(parts))


def readable(parts: Iterable[str]) -> str:
    """The readable part of a name: [a-z0-9._-] only."""
    text = "-".join(_UNSAFE.sub("-", part.lower()).strip("-.") for part in parts if part)
    return text[:NAME_LIMIT].strip("-.") or "run"
