"""Which runs of a home were made with other code of an unreleased plug-in, and which of its files changed since."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from plat.spec.experiment import Run
from plat.spec.run_code import code_keys, run_code
from plat.store.home import Home
from plat.store.index.runs import states
from plat.store.run_directory.files import config_hash, load_meta
from plat.trainer.plugin_code import CODE, TRAINER, PluginCode, changed_files
from plat.units import counted

SHOWN = 5  # files that are named


class Change(NamedTuple):
    """Files of the plug-in that a key of the config names, changed since a run was made; `code` is what its id says."""

    key: str
    files: str
    code: str

    @property
    def spec(self) -> str:
        return "TrainerSpec" if self.key == TRAINER else f"spec of {self.key}"


def changed_code(runs: Iterable[Run], home: Home) -> list[str]:
    """Lines about code that changed since runs of these configs were made in this home; [] when none did.

    They count the runs that are to be made again because of it, and say how to keep the earlier ones; and the done runs
    that are kept because the author named the code.
    """
    counting = {run.id: run for run in runs if code_keys(run.identity)}
    state_of = states(home, counting) if counting else {}
    missing: dict[tuple[str, str], dict[str, PluginCode]] = {}
    kept = Counter[Change]()
    for run in counting.values():
        codes = run_code(run.trainer, run.config, run.identity)
        if state_of[run.id].state == "missing":
            missing[run.trainer, config_hash(run.config)] = codes
        elif state_of[run.id].state == "done":
            kept.update(_changes(load_meta(home.run(run.id)) or {}, codes))
    return [
        f"{change.files} changed since {counted(number, 'run')} of these configs {_were(number)} made, so they are "
        f'made again; if the change alters no result, code="{change.code}" in the {change.spec} keeps them'
        for change, number in _made_before(missing, home).items()
    ] + [
        f"{change.files} changed since {counted(number, 'run')} {_were(number)} made, which the code named in the "
        f"{change.spec} keeps"
        for change, number in kept.items()
    ]


def _made_before(missing: Mapping[tuple[str, str], dict[str, PluginCode]], home: Home) -> Counter[Change]:
    """What changed since runs of these trainers and configs were made in this home; of several, since the newest."""
    newest: dict[tuple[str, str], tuple[float, list[Change]]] = {}
    for run_id in home.run_ids() if missing else ():
        meta = load_meta(home.run(run_id)) or {}
        asked = (meta.get("trainer", ""), meta.get("config_sha256", ""))
        created = meta.get("created") or 0.0
        if asked in missing and home.run(run_id).result.exists() and created >= newest.get(asked, (0.0, []))[0]:
            newest[asked] = created, _changes(meta, missing[asked])
    return Counter(change for _, changes in newest.values() for change in changes)


def _changes(meta: Mapping[str, Any], codes: Mapping[str, PluginCode]) -> list[Change]:
    """The plug-ins whose files are not those that meta.json of a run records."""
    recorded, changes = meta.get("plugin_code") or {}, []
    named = {key: fact for key, fact in (meta.get("identity") or {}).get("plugins", ()) if fact.startswith(CODE)}
    for key, code in codes.items():
        files = changed_files(recorded[key], code.files) if key in recorded else []
        if files:
            more = f" and {counted(len(files) - SHOWN, 'more file')}" if len(files) > SHOWN else ""
            changes.append(Change(key, ", ".join(files[:SHOWN]) + more, named.get(key, "").removeprefix(CODE)))
    return changes


def _were(number: int) -> str:
    return "was" if number == 1 else "were"
