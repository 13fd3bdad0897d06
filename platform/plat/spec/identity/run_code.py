"""Find the code of the unreleased plug-ins in a run's identity (`plat.plugins.plugin_code`)."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from plat.errors import RunError
from plat.plugins.loading import load_choice
from plat.plugins.plugin_code import CODE, FILES, TRAINER, PluginCode, plugin_code
from plat.spec.composition.schema import build, schema_of, select
from plat.spec.composition.trainer_calls import source_code
from plat.trainer.finding import find_trainer


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
        spec: Any = find_trainer(trainer)
        if key == FILES:
            codes[key] = source_code(spec, build(spec.config_type, config))
            continue
        if key != TRAINER:
            group = schema_of(spec.config_type).leaves[key].metadata["plugin"]
            spec = load_choice(group, str(select(config, key)))
        code = plugin_code(spec)
        if code is not None:
            codes[key] = code
    return codes


def snapshot(
    folder: Path, trainer: str, config: Mapping[str, Any], identity: Mapping[str, Any], do: str = "kept"
) -> Any:
    """Return the copy of the files that a config names (`TrainerSpec.snapshots`), or None; "place_of" makes none."""
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
