"""Compute the id of a run: the hash of everything that can change its result.

The id is the first 64 bits of the SHA-256 of canonical JSON (sorted keys, shortest float spelling). It covers SCHEME,
the trainer's name and version, the resolved config, the versions of the plug-ins in it, and the trainer's fingerprint
(e.g. the content of the base model). The config leaves out operational keys, keys at their `legacy` value, and mappings
that are then empty, so that a new option changes no old id. Keys that have no effect keep the value of their config
group (`plat.spec.composition.resolver`), so overriding them changes no id.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

from plat.errors import RunError
from plat.plugins.loading import load_choice
from plat.plugins.plugin_code import CODE, FILES, TRAINER, PluginCode, plugin_code
from plat.spec.composition.schema import build, schema_of, select
from plat.spec.composition.trainer_calls import source_code
from plat.trainer.finding import find_trainer

SCHEME = 2  # raise it when a change to this file gives the same run another id
ID_DIGITS = 16
NAME_LIMIT = 80
_UNSAFE = re.compile(r"[^a-z0-9._]+")


def canonical(value: Any) -> str:
    """Return the canonical JSON of a plain value."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"))


def is_operational(key: str, operational: Iterable[str]) -> bool:
    """Return True if a dotted key is an operational key or lies below one."""
    return key in operational or key.startswith(_prefixes(tuple(operational)))


def result_affecting(key: str, value: Any, operational: tuple[str, ...], legacy: Mapping[str, Any]) -> tuple[bool, Any]:
    """Return (kept, value) of the config below a dotted key, where `value` holds only what can change results.

    Operational keys, legacy values and empty mappings are removed; `kept` is False if nothing is left.
    """
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
    """Return the prefixes of all keys below these keys."""
    return tuple(f"{key}." for key in keys)


def identity(fragments: Iterable[str], facts: str) -> str:
    """Return the id of a canonical config (sorted `"key":value` texts) and the canonical JSON of all other facts."""
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
    """Return the id of a recorded run under the current scheme.

    plugins   [config key, version] of each plug-in in the config
    left_out  dotted config keys that are not hashed, as `left_out_keys` returned them when the run was made
    """
    keys = tuple(left_out)
    fragments = []
    for name in sorted(config):
        kept, affecting = result_affecting(name, config[name], keys, {})
        if kept:
            fragments.append(canonical(name) + ":" + canonical(affecting))
    return identity(fragments, canonical([trainer, version, sorted(plugins), fingerprint]))


def left_out_keys(key: str, value: Any, kept: bool, affecting: Any) -> tuple[str, ...]:
    """Return the dotted keys, at and below `key`, that `result_affecting` left out, without empty mappings."""
    if not isinstance(value, dict):
        return () if kept else (key,)
    inside = affecting or {}
    parts = (left_out_keys(f"{key}.{name}", below, name in inside, inside.get(name)) for name, below in value.items())
    return tuple(itertools.chain.from_iterable(parts))


def readable(parts: Iterable[str]) -> str:
    """Join texts with "-", in characters [a-z0-9._-] only, cut to NAME_LIMIT; "run" if nothing is left."""
    text = "-".join(_UNSAFE.sub("-", part.lower()).strip("-.") for part in parts if part)
    return text[:NAME_LIMIT].strip("-.") or "run"


# Find the code of the unreleased plug-ins in a run's identity (`plat.plugins.plugin_code`).


def named_code(identity: Mapping[str, Any]) -> dict[str, str]:
    """Return config key -> digest for the plug-ins identified by their code; `trainer` is the trainer's key."""
    facts = identity.get("plugins", ())
    return {key: fact.removeprefix(CODE) for key, fact in facts if fact.startswith(CODE)}


def run_code(trainer: str, config: Mapping[str, Any], identity: Mapping[str, Any]) -> dict[str, PluginCode]:
    """Return config key -> present code, for each plug-in that `named_code(identity)` lists.

    Plug-ins that are now installed releases are left out. Raises SpecError if the trainer does not exist, and
    PluginError if a plug-in cannot be imported.
    """
    codes = {}
    for key in named_code(identity):
        spec = find_trainer(trainer)
        if key == FILES:
            codes[key] = source_code(spec, build(spec.config_type, config))
            continue
        plugin: Any = type(spec)
        if key != TRAINER:
            group = schema_of(spec.config_type).leaves[key].metadata["plugin"]
            plugin = load_choice(group, str(select(config, key)))
        code = plugin_code(plugin)
        if code is not None:
            codes[key] = code
    return codes


def snapshot(
    folder: Path, trainer: str, config: Mapping[str, Any], identity: Mapping[str, Any], do: str = "kept"
) -> Any:
    """Return the copy of the files that a config names (`Trainer.snapshots`), or None; "place_of" makes none."""
    spec, digest = find_trainer(trainer), named_code(identity).get(FILES)
    wanted = digest and spec.snapshots
    return getattr(spec.snapshots, do)(build(spec.config_type, config), digest, folder) if wanted else None


def changed_code(meta: Mapping[str, Any], config: Mapping[str, Any]) -> tuple[str, str] | None:
    """Return (config key, what changed, such as "train.py") if code is not the one that the run's id names, else None.

    `PluginCode.digest` is compared. If the author named the code, the name alone counts, and changed files pass.
    Nothing is checked for a plug-in whose code is not part of the id, or that is an installed release now.

    If the id names code: raises SpecError if the trainer does not exist, PluginError if a plug-in cannot be loaded.
    """
    identity = meta.get("identity") or {}
    named = named_code(identity)
    for key, code in run_code(meta["trainer"], config, identity).items():
        if not code.is_named_by(named[key]):
            recorded = (meta.get("plugin_code") or {}).get(key) or {}
            files = code.changed_since(recorded) if recorded else []
            unknown = "a file that the config names" if key == FILES else f"the code of {key}"
            return key, ", ".join(files[:3]) if files else unknown
    return None


def refuse(changed: tuple[str, str] | None) -> None:
    """Raise RunError for a change that `changed_code` has found."""
    if changed:
        key, what = changed
        fix = "give the experiment's command again, which makes new runs; or put the code back and `plat retry`"
        raise RunError(f"{what} changed since this run was planned, and its id names the code", where=key, fix=fix)
