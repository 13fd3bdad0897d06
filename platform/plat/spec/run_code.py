"""The code of the unreleased plug-ins that a run's identity names (`plat.trainer.plugin_code`)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from plat.errors import RunError
from plat.spec.schema import schema_of, select
from plat.trainer.api import find_trainer
from plat.trainer.plugin_code import CODE, TRAINER, PluginCode, changed_files, plugin_code
from plat.trainer.plugins import load_plugin


def code_keys(identity: Mapping[str, Any]) -> list[str]:
    """The keys of the config whose plug-ins count with their code; `trainer` for the trainer."""
    return [key for key, fact in identity.get("plugins", ()) if fact.startswith(CODE)]


def run_code(trainer: str, config: Mapping[str, Any], identity: Mapping[str, Any]) -> dict[str, PluginCode]:
    """The present code of those plug-ins, by key; without those that are installed releases by now."""
    codes = {}
    for key in code_keys(identity):
        spec: Any = find_trainer(trainer)
        if key != TRAINER:
            group = schema_of(spec.config_type).leaves[key].metadata["plugin"]
            spec = load_plugin(group, str(select(config, key)))
        code = plugin_code(spec)
        if code is not None:
            codes[key] = code
    return codes


def files_by_key(trainer: str, config: Mapping[str, Any], identity: Mapping[str, Any]) -> dict[str, dict[str, str]]:
    """What meta.json records of that code: key -> name of a file -> hash."""
    return {key: dict(code.files) for key, code in run_code(trainer, config, identity).items()}


def check_code(meta: Mapping[str, Any], config: Mapping[str, Any]) -> None:
    """RunError when a plug-in's code is not the one that the run's id names any more."""
    identity = meta.get("identity") or {}
    named = {key: fact for key, fact in identity.get("plugins", ()) if fact.startswith(CODE)}
    for key, code in run_code(meta["trainer"], config, identity).items():
        if named[key] != CODE + code.digest:
            recorded = (meta.get("plugin_code") or {}).get(key) or {}
            files = changed_files(recorded, code.files) if recorded else []
            what = f"{', '.join(files[:3])} changed" if files else f"the code of {key} changed"
            raise RunError(
                f"{what} since this run was planned, and its id names the code",
                where=key,
                mend="give the experiment's command again, which makes new runs; or put the code back and `plat retry`",
            )
