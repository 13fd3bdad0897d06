"""The files of a run that decide its result, read and verified: config.yaml, meta.json, result.json.

Promised: none of them is used damaged or as another run's: `plat.store.run_directory.own_files` has the rules. The
config is the one whose hash is in meta.json. Files of plat 0.1, which have no checksum, are accepted as they are.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from plat.errors import HomeError
from plat.plain_files import parse_yaml, read_text
from plat.spec.identity import SCHEME, recomputed
from plat.store.durable import set_aside
from plat.store.run_directory.config_text import load_by_sections
from plat.store.run_directory.own_files import is_of_other, read_own, read_own_meta
from plat.store.run_directory.paths import AttemptPaths, RunPaths
from plat.store.run_directory.types import ATTEMPT_META, OUTCOME, RESULT
from plat.trainer.api import HEADLINE

CONFIG_DAMAGE = "config.yaml is not the one the run was made with: it was edited or damaged"
CONFIG_UNREADABLE = "the run's config cannot be read"
BACK = "put back into its own folder what is another run's"
OTHERWISE = "or remove the run's directory and sweep again"
META_MISSING = "meta.json is missing"
META_MEND = "`plat sweep` of the experiment file (or the same `plat run`) writes it again"
CONFIG_MEND = (
    "`plat sweep` of the experiment file (or the same `plat run`) writes it again; to change a run, change the "
    "experiment file"
)


def mend_of(damage: str) -> str:
    """How to mend a run whose files are damaged in this way."""
    if damage == CONFIG_DAMAGE or damage.startswith(CONFIG_UNREADABLE):
        return CONFIG_MEND
    if damage.startswith("meta.json is ") and not is_of_other(damage):
        return META_MEND
    if damage.startswith("result.json is "):
        return (
            "`plat sweep` of the experiment file (or the same `plat run`) sets it aside and goes on from the newest "
            "checkpoint"
        )
    if is_of_other(damage):
        return f"{BACK}, {OTHERWISE}"
    if damage.startswith("code."):
        return f"put back what was recorded, from a copy or the run's artifacts in MLflow, {OTHERWISE}"
    if "/outcome.json " in damage:
        return (
            "remove the run's result.json, then `plat sweep` of the experiment file (or the same `plat run`) sets it "
            "aside and goes on from the newest checkpoint"
        )
    return "remove the run's directory and sweep again"


def unreadable(paths: RunPaths) -> str:
    """What is wrong with the meta.json or the config.yaml of a run of which nothing can be recorded; "" when nothing
    is. An edited config can be read: `config_damage` tells."""
    meta, problem = read_own_meta(paths)
    if meta is None:
        return problem or META_MISSING
    try:
        load_config(paths, meta)
    except HomeError as error:
        return error.what
    return ""


def config_hash(config: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(config, sort_keys=True).encode()).hexdigest()


def read_config(paths: RunPaths) -> dict[str, Any]:
    """The resolved config the run was made with; HomeError when the file is missing, damaged or was edited."""
    meta = load_meta(paths) or {}
    config = load_config(paths, meta)
    problem = config_damage(meta, config)
    if problem:
        raise HomeError(problem, where=str(paths.config), mend=CONFIG_MEND)
    return config


def load_config(paths: RunPaths, meta: Mapping[str, Any]) -> dict[str, Any]:
    """What config.yaml holds, edited or not (`config_damage` tells); HomeError when it cannot be read as a config."""
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
    raise HomeError(f"{CONFIG_UNREADABLE}: {problem}", where=str(paths.config), mend=CONFIG_MEND)


def config_damage(meta: Mapping[str, Any], config: Mapping[str, Any]) -> str:
    """What is wrong with a config, given the run's meta.json; "" when it is the one the run was made with."""
    recorded = meta.get("config_sha256")
    if recorded is None or recorded == config_hash(config):
        return ""
    return CONFIG_DAMAGE


def recomputed_id(meta: Mapping[str, Any], config: Mapping[str, Any]) -> str | None:
    """The id that this config, and what meta.json records, hash to; None where too little is recorded to tell.

    Runs made before plat 0.2.1 do not record it, and another scheme of ids is not known here.
    """
    recorded = meta.get("identity")
    if not recorded or meta.get("identity_scheme") != SCHEME:
        return None
    names, fingerprint = (recorded["plugins"], recorded["left_out"]), meta.get("fingerprint") or {}
    return recomputed(config, recorded["trainer"], meta.get("trainer_version") or "", fingerprint, *names)


def load_meta(paths: RunPaths) -> dict[str, Any] | None:
    """meta.json; None when it is missing, damaged or of another run (`meta_damage` tells these apart)."""
    return read_own_meta(paths)[0]


def meta_damage(paths: RunPaths) -> str:
    """What is wrong with meta.json; "" when it is there and whole, or when there is none."""
    return read_own_meta(paths)[1]


def gpus_of(meta: Mapping[str, Any]) -> int:
    """How many GPUs a run has been given, as its meta.json says."""
    resources = meta.get("resources")
    gpus = resources.get("gpus") if isinstance(resources, Mapping) else 0
    return gpus if isinstance(gpus, int) else 0


def read_status(attempt: AttemptPaths) -> str:
    """What the attempt said last that it is doing before its first event, in one line; "" when it said nothing."""
    try:
        return " ".join(read_text(attempt.status, errors="replace").split())
    except OSError:
        return ""


def read_meta(paths: RunPaths) -> dict[str, Any]:
    """meta.json; HomeError when it is missing, damaged or of another run."""
    meta, problem = read_own_meta(paths)
    if meta is None:
        other = is_of_other(problem)
        raise HomeError(
            f"the run's {problem}" if other else "the run's meta.json is missing or damaged",
            where=str(paths.meta),
            mend=mend_of(problem or META_MISSING),
        )
    meta.setdefault("experiments", [])
    return meta


def read_result(paths: RunPaths) -> dict[str, Any] | None:
    """result.json; None when it is missing, damaged or of another run, because then the run is not done."""
    return _read_result(paths)[0]


def _read_result(paths: RunPaths) -> tuple[dict[str, Any] | None, str]:
    result, problem = read_own(paths.result, paths, RESULT, key="id")
    if result is not None and "outcome" not in result:
        return None, f"{paths.result.name} is damaged"
    return result, problem


def read_outcome(attempt: AttemptPaths) -> dict[str, Any] | None:
    """outcome.json; None when it is missing, damaged or another's, because then nobody knows how the attempt ended."""
    return _read_outcome(attempt)[0]


def _read_outcome(attempt: AttemptPaths) -> tuple[dict[str, Any] | None, str]:
    return read_own(attempt.outcome, attempt.run, OUTCOME, attempt=attempt.number)


def read_attempt_meta(attempt: AttemptPaths) -> dict[str, Any]:
    """attempt.json; empty when it is missing, damaged or another's (`damaged_files` tells these apart)."""
    return _read_attempt_meta(attempt)[0] or {}


def _read_attempt_meta(attempt: AttemptPaths) -> tuple[dict[str, Any] | None, str]:
    return read_own(attempt.meta, attempt.run, ATTEMPT_META, attempt=attempt.number)


def damaged_files(attempt: AttemptPaths) -> dict[Path, str]:
    """The attempt.json and outcome.json that are there and must not be used -> what is wrong with them."""
    problems = {attempt.meta: _read_attempt_meta(attempt)[1], attempt.outcome: _read_outcome(attempt)[1]}
    return {path: problem for path, problem in problems.items() if problem}


def result_damage(paths: RunPaths) -> str:
    """What is wrong with result.json; "" when it is there and whole, or when there is none."""
    return _read_result(paths)[1]


def headline_of(meta: Mapping[str, Any] | None) -> str:
    """The metric that a run shows as success, from its meta.json; the usual one where that does not say."""
    return str((meta or {}).get("headline") or HEADLINE)


def config_changed_since_result(paths: RunPaths) -> bool:
    """Whether config.yaml was touched, or removed, after the run ended. Fast: reads neither file."""
    try:
        return paths.config.stat().st_ctime_ns > paths.result.stat().st_ctime_ns
    except OSError:
        return True


def set_damaged_config_aside(paths: RunPaths) -> Path | None:
    """Rename a config.yaml that is damaged or was edited, so that `create` writes it again; its new path, if any."""
    if not os.path.lexists(paths.config):
        return None
    try:
        read_config(paths)
    except HomeError:
        return set_aside(paths.config)
    return None
