"""Read and verify the files that decide a run's result: config.yaml, meta.json, result.json, and those of attempts.

A damaged file, or one of another run, is never used (`plat.store.run_directory.own_files` has the rules). The config
must match its hash in meta.json.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from plat.errors import HomeError
from plat.plain_files import parse_yaml, read_text
from plat.spec.identity.run_identity import SCHEME, recomputed
from plat.store.disk.durable import set_aside
from plat.store.run_directory.config_text import load_by_sections
from plat.store.run_directory.own_files import CONFIG_FIX, Damage, read_own
from plat.store.run_directory.paths import AttemptPaths, RunPaths
from plat.store.run_directory.types import ATTEMPT_META, META, OUTCOME, RESULT, Type
from plat.trainer.api import HEADLINE

if TYPE_CHECKING:
    from plat.spec.expansion.run import Run

CONFIG_DAMAGE = Damage("differs from the config that the run was made with: it was edited or damaged", "config.yaml")
META_MISSING = Damage("is missing", "meta.json")


def unreadable(paths: RunPaths) -> Damage | None:
    """Return why meta.json or config.yaml cannot be read; None if both can. An edited config can be read."""
    meta, problem = _read_own_meta(paths)
    if meta is None:
        return problem or META_MISSING
    try:
        load_config(paths, meta)
    except HomeError as error:
        return Damage(error.what.removeprefix("config.yaml "), "config.yaml")
    return None


def config_hash(config: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(config, sort_keys=True).encode()).hexdigest()


def read_config(paths: RunPaths) -> dict[str, Any]:
    """Return the resolved config the run was made with. Raises HomeError if the file is missing, damaged or edited.

    An edit is not detected without a readable meta.json, which has the hash of the config.
    """
    meta = load_meta(paths) or {}
    config = load_config(paths, meta)
    problem = config_damage(meta, config)
    if problem:
        raise HomeError(str(problem), where=str(paths.config), fix=problem.fix)
    return config


def load_config(paths: RunPaths, meta: Mapping[str, Any]) -> dict[str, Any]:
    """Return the content of config.yaml, edited or not. Raises HomeError if it cannot be read or is no mapping.

    `meta`, the content of meta.json, changes only the speed.
    """
    try:
        text = read_text(paths.config)
        config = load_by_sections(text)
        if config is not None and meta.get("config_sha256") == config_hash(config):
            return config
        config = parse_yaml(text)
        if isinstance(config, dict):
            return config
        problem = "it is not a mapping"
    except (OSError, ValueError) as error:
        problem = str(error)
    raise HomeError(f"config.yaml cannot be read: {problem}", where=str(paths.config), fix=CONFIG_FIX)


def config_damage(meta: Mapping[str, Any], config: Mapping[str, Any]) -> Damage | None:
    """Return CONFIG_DAMAGE if the hash of a config differs from that in meta.json; None if not, or if it is missing."""
    recorded = meta.get("config_sha256")
    return None if recorded is None or recorded == config_hash(config) else CONFIG_DAMAGE


def recomputed_id(meta: Mapping[str, Any], config: Mapping[str, Any]) -> str | None:
    """Recompute a run's id; None if meta.json has no `identity`, or another identity scheme."""
    recorded = meta.get("identity")
    if not recorded or meta.get("identity_scheme") != SCHEME:
        return None
    names, fingerprint = (recorded["plugins"], recorded["left_out"]), meta.get("fingerprint") or {}
    return recomputed(config, recorded["trainer"], meta.get("trainer_version") or "", fingerprint, *names)


def load_meta(paths: RunPaths) -> dict[str, Any] | None:
    """Return meta.json; None if it is missing, damaged or of another run (`meta_damage` distinguishes these)."""
    return _read_own_meta(paths)[0]


def _read_own_meta(paths: RunPaths) -> tuple[dict[str, Any] | None, Damage | None]:
    return read_own(paths.meta, paths, META, key="id")


def meta_damage(paths: RunPaths) -> Damage | None:
    """Return the damage of meta.json; None if there is none, or no file."""
    return _read_own_meta(paths)[1]


def gpus_of(meta: Mapping[str, Any]) -> int:
    """Return the number of GPUs in a run's resources, on all its machines; 0 if meta.json has none."""
    each, nodes = (_count(meta, name) for name in ("gpus", "nodes"))
    return each * max(1, nodes)


def nodes_of(meta: Mapping[str, Any]) -> int:
    """Return the number of machines in a run's resources, 1 if meta.json has none."""
    return max(1, _count(meta, "nodes"))


def _count(meta: Mapping[str, Any], name: str) -> int:
    resources = meta.get("resources")
    value = resources.get(name) if isinstance(resources, Mapping) else 0
    return value if isinstance(value, int) else 0


def read_status(attempt: AttemptPaths) -> str:
    """Return the last `RunIO.status` of an attempt in one line; "" if there is none."""
    try:
        return " ".join(read_text(attempt.status, errors="replace").split())
    except OSError:
        return ""


def read_meta(paths: RunPaths) -> dict[str, Any]:
    """Return meta.json, always with `experiments`. Raises HomeError if it is missing, damaged or of another run."""
    meta, problem = _read_own_meta(paths)
    if meta is None:
        problem = problem or META_MISSING
        says = f"the run's {problem if problem.foreign else 'meta.json is missing or damaged'}"
        raise HomeError(says, where=str(paths.meta), fix=problem.fix)
    meta.setdefault("experiments", [])
    return meta


def read_run(paths: RunPaths) -> Run:
    """Return the run of a directory, without its experiment file: `identity`, `version`, `fingerprint` are empty.

    Raises HomeError if config.yaml or meta.json is missing, damaged or edited, or meta.json is of another run.
    """
    from plat.spec.expansion.run import Run

    meta = read_meta(paths)
    prepare = meta.get("prepare")
    return Run(
        meta["id"],
        meta["name"],
        meta["axes"],
        meta["trainer"],
        read_config(paths),
        (prepare[0], prepare[1]) if prepare else None,
        meta.get("resources", {}),
        headline=headline_of(meta),
    )


def read_result(paths: RunPaths) -> dict[str, Any] | None:
    """Return result.json; None if it is missing, damaged or of another run, because then the run is not done."""
    return _read_result(paths)[0]


def _read_result(paths: RunPaths) -> tuple[dict[str, Any] | None, Damage | None]:
    result, problem = read_own(paths.result, paths, RESULT, key="id")
    if result is not None and "outcome" not in result:
        return None, Damage("is damaged", paths.result.name)
    return result, problem


def read_outcome(attempt: AttemptPaths) -> dict[str, Any] | None:
    """Return outcome.json; None if it is missing, damaged, or of another run or attempt."""
    return _of_attempt(attempt, attempt.outcome, OUTCOME)[0]


def read_attempt_meta(attempt: AttemptPaths) -> dict[str, Any]:
    """Return attempt.json; {} if it is missing, damaged, or of another run or attempt (see `damaged_files`)."""
    return _of_attempt(attempt, attempt.meta, ATTEMPT_META)[0] or {}


def damaged_files(attempt: AttemptPaths) -> dict[Path, Damage]:
    """Return path -> damage for those of attempt.json and outcome.json that exist and must not be used."""
    types = {attempt.meta: ATTEMPT_META, attempt.outcome: OUTCOME}
    return {path: problem for path in types if (problem := _of_attempt(attempt, path, types[path])[1])}


def _of_attempt(
    attempt: AttemptPaths, path: Path, types: Mapping[str, Type]
) -> tuple[dict[str, Any] | None, Damage | None]:
    return read_own(path, attempt.run, types, attempt=attempt.number)


def result_damage(paths: RunPaths) -> Damage | None:
    """Return the damage of result.json; None if there is none, or no file."""
    return _read_result(paths)[1]


def headline_of(meta: Mapping[str, Any] | None) -> str:
    """Return the metric that a run shows as success, from its meta.json; HEADLINE by default."""
    return str((meta or {}).get("headline") or HEADLINE)


def config_changed_since_result(paths: RunPaths) -> bool:
    """Return True if config.yaml changed after result.json, or one of them is missing. Fast: compares times only."""
    try:
        return paths.config.stat().st_ctime_ns > paths.result.stat().st_ctime_ns
    except OSError:
        return True


def set_damaged_config_aside(paths: RunPaths) -> Path | None:
    """Rename a damaged or edited config.yaml, so that `create` writes it again; return the new path, else None."""
    if not os.path.lexists(paths.config):
        return None
    try:
        read_config(paths)
    except HomeError:
        return set_aside(paths.config)
    return None
