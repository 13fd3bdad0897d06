"""The files of a run that decide its result, read and verified: config.yaml, meta.json, result.json.

Promised: none of them is used damaged. meta.json and result.json carry a checksum, and meta.json has the hash of the
config; files of plat 0.1 without a checksum are accepted as they are.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from plat.errors import HomeError
from plat.spec.identity import SCHEME, recomputed
from plat.store.durable import read_json, set_aside
from plat.store.run_directory.config_text import load_by_sections, load_whole
from plat.store.run_directory.paths import AttemptPaths, RunPaths
from plat.store.run_directory.types import ATTEMPT_META, META, OUTCOME, RESULT, wrong_type
from plat.trainer.api import HEADLINE

CONFIG_DAMAGE = "config.yaml is not the one the run was made with: it was edited or damaged"
CONFIG_UNREADABLE = "the run's config cannot be read"
RESULT_DAMAGE = "result.json is damaged"
CONFIG_MEND = (
    "`plat sweep` of the experiment file (or the same `plat run`) writes it again; to change a run, change the "
    "experiment file"
)


def mend_of(damage: str) -> str:
    """How to mend a run whose files are damaged in this way."""
    if damage == CONFIG_DAMAGE or damage.startswith(CONFIG_UNREADABLE):
        return CONFIG_MEND
    if damage.startswith(RESULT_DAMAGE):
        return (
            "`plat sweep` of the experiment file (or the same `plat run`) sets it aside and goes on from the newest "
            "checkpoint"
        )
    return "remove the run's directory and sweep again"


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
    import yaml

    try:
        text = paths.config.read_text(encoding="utf-8")
        config = load_by_sections(text)
        if config is not None and meta.get("config_sha256") == config_hash(config):
            return config
        config = load_whole(text)
        if isinstance(config, dict):
            return config
        problem = "it is not a mapping"
    except (OSError, yaml.YAMLError, ValueError, RecursionError) as error:
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
    """meta.json; None when it is missing or damaged, or when what is in it is not what plat writes there.

    A file without a checksum, from plat 0.1 or edited by somebody, can be any JSON object.
    """
    meta = read_json(paths.meta)
    return None if meta is None or wrong_type(meta, META) else meta


def gpus_of(meta: Mapping[str, Any]) -> int:
    """How many GPUs a run has been given, as its meta.json says."""
    resources = meta.get("resources")
    gpus = resources.get("gpus") if isinstance(resources, Mapping) else 0
    return gpus if isinstance(gpus, int) else 0


def read_status(attempt: AttemptPaths) -> str:
    """What the attempt said last that it is doing before its first event, in one line; "" when it said nothing."""
    try:
        return " ".join(attempt.status.read_text(encoding="utf-8", errors="replace").split())
    except OSError:
        return ""


def read_meta(paths: RunPaths) -> dict[str, Any]:
    """meta.json; HomeError when it is missing or damaged."""
    meta = load_meta(paths)
    if meta is None:
        raise HomeError(
            "the run's meta.json is missing or damaged",
            where=str(paths.meta),
            mend="`plat sweep` of the experiment file (or the same `plat run`) writes it again",
        )
    meta.setdefault("experiments", [])
    return meta


def read_result(paths: RunPaths) -> dict[str, Any] | None:
    """result.json; None when it is missing or damaged, because then the run is not done."""
    result = read_json(paths.result)
    return None if result is None or "outcome" not in result or wrong_type(result, RESULT) else result


def read_outcome(attempt: AttemptPaths) -> dict[str, Any] | None:
    """outcome.json; None when it is missing or damaged, because then nobody knows how the attempt ended."""
    outcome = read_json(attempt.outcome)
    return None if outcome is None or wrong_type(outcome, OUTCOME) else outcome


def read_attempt_meta(attempt: AttemptPaths) -> dict[str, Any]:
    """attempt.json; empty when it is missing or damaged (`attempt_damage` tells the two apart)."""
    facts = read_json(attempt.meta)
    return {} if facts is None or wrong_type(facts, ATTEMPT_META) else facts


def attempt_damage(attempt: AttemptPaths) -> str:
    """What is wrong with attempt.json; "" when it is there and whole, or when there is none."""
    facts = read_json(attempt.meta)
    if facts is not None:
        problem = wrong_type(facts, ATTEMPT_META)
        return f"{attempt.meta.name} is damaged: {problem}" if problem else ""
    return f"{attempt.meta.name} is damaged" if os.path.lexists(attempt.meta) else ""


def result_damage(paths: RunPaths) -> str:
    """What is wrong with result.json; "" when it is there and whole, or when there is none."""
    if read_result(paths) is not None or not os.path.lexists(paths.result):
        return ""
    problem = wrong_type(read_json(paths.result) or {}, RESULT)
    return f"{RESULT_DAMAGE}: {problem}" if problem else RESULT_DAMAGE


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
