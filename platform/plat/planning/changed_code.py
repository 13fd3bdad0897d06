"""Report runs of a home that other code of an unreleased plug-in, or another version of their trainer, has made."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

from plat.errors import HomeError
from plat.plugins.plugin_code import FILES, TRAINER, PluginCode
from plat.spec.composition.schema import schema_of, select
from plat.spec.composition.trainer_calls import checked_call
from plat.spec.expansion.experiment import Run, config_object
from plat.spec.expansion.run import same_results
from plat.spec.identity.run_identity import canonical, named_code, run_code
from plat.store.home import Home
from plat.store.many_runs import states
from plat.store.run_directory.paths import RunPaths
from plat.store.run_directory.run_files import config_hash, load_config, load_meta
from plat.trainer.api import has_own
from plat.trainer.finding import find_trainer
from plat.units import are, counted, were
from plat.words.states import RunStatus

SHOWN = 5  # files listed by name


class Change(NamedTuple):
    """Changed files of the plug-in under a config key. `code`: the author's name for the code in the run's identity."""

    key: str
    files: str
    code: str

    @property
    def advice(self) -> str:
        """How to keep the earlier runs, in words; "" for files that a config names."""
        if self.key == FILES:
            return ""
        return f'; to keep them, set code="{self.code}" in the {self.spec} if the change alters no result'

    @property
    def spec(self) -> str:
        """Where the author names the code, in words: "trainer", or "spec of KEY"."""
        return "trainer" if self.key == TRAINER else f"spec of {self.key}"


class Earlier(NamedTuple):
    """A done run of the same config, made with other code, and what changed since."""

    id: str
    identity: dict[str, Any]
    changes: list[Change]


def changed_code(runs: Iterable[Run], home: Home, earlier: Mapping[str, Earlier] | None = None) -> list[str]:
    """Return lines about code that changed since runs of these configs were made in this home; [] if none did.

    They count done runs of two kinds: those that are made again, because their id names other code, and
    those that stay valid, because the author named the code (`code=` in the spec) and did not change that name.

    earlier   `made_before` of these runs, if it is known
    """
    counting = {run.id: run for run in runs if named_code(run.identity)}
    state_of = states(home, counting) if counting else {}
    earlier = made_before(counting.values(), home) if earlier is None else earlier
    made_again = Counter(change for run in earlier.values() for change in run.changes)
    kept, versions = Counter[Change](), Counter[str]()
    for run in counting.values():
        if state_of[run.id].state == RunStatus.DONE:
            meta, codes = load_meta(home.run(run.id)) or {}, run_code(run.trainer, run.config, run.identity)
            kept.update(_changes(meta, codes))
            versions.update(_versions(meta, codes))
    return (
        [
            f"{change.files} changed since {counted(number, 'run')} of these configs {were(number)} made, so they are "
            f"made again{change.advice}"
            for change, number in made_again.items()
        ]
        + [
            f"{change.files} changed since {counted(number, 'run')} {were(number)} made; the results stay valid, "
            f"because the {change.spec} names the code and this name is unchanged"
            for change, number in kept.items()
        ]
        + [
            f"{change} since {counted(number, 'run')} {were(number)} made; the results stay valid "
            "(script.packages: true lets versions make new runs)"
            for change, number in sorted(versions.items())
        ]
    )


def made_before(runs: Iterable[Run], home: Home) -> dict[str, Earlier]:
    """Return id -> the newest done run of the same config with other code, for those of `runs` that are missing here.

    A config that differs in keys that alter no result, such as `script.timeout`, is found by its axes.
    """
    counting = {run.id: run for run in runs if named_code(run.identity)}
    state_of = states(home, counting) if counting else {}
    missing: dict[str, tuple[Run, dict[str, PluginCode]]] = {}
    for run in counting.values():
        if state_of[run.id].state == RunStatus.MISSING:
            entry = run, run_code(run.trainer, run.config, run.identity)
            missing[_by_config(run.trainer, config_hash(run.config))] = entry
            missing[_by_axes(run.trainer, run.axes)] = entry
    newest: dict[str, tuple[float, Earlier]] = {}
    for run_id in home.run_ids() if missing else ():
        meta = load_meta(home.run(run_id)) or {}
        trainer, created = str(meta.get("trainer", "")), meta.get("created") or 0.0
        found = missing.get(_by_config(trainer, str(meta.get("config_sha256"))))
        found = found or missing.get(_by_axes(trainer, meta.get("axes") or {}))
        if found is None or not home.run(run_id).result.exists():
            continue
        run, codes = found
        if (run.id not in newest or created >= newest[run.id][0]) and _is_of_config(run, home.run(run_id), meta):
            newest[run.id] = created, Earlier(run_id, meta.get("identity") or {}, _changes(meta, codes))
    return {run_id: earlier for run_id, (_, earlier) in newest.items()}


def without_files(runs: Iterable[Run]) -> list[str]:
    """Return a line if a trainer follows files of configs, and none of some of these runs; else []."""
    followed: dict[str, bool] = {}
    for run in runs:
        if run.trainer not in followed:
            followed[run.trainer] = has_own(find_trainer(run.trainer), "source_files")
        if followed[run.trainer] and FILES not in named_code(run.identity):
            return [
                "no file of this command is followed: a changed program gives no new runs; name its files with "
                "script.files"
            ]
    return []


def doubts(runs: Iterable[Run]) -> list[str]:
    """Return what the trainers say about several runs of them (`Trainer.doubts`)."""
    of_trainer: dict[str, list[Run]] = {}
    for run in runs:
        of_trainer.setdefault(run.trainer, []).append(run)
    lines: list[str] = []
    for trainer, own in of_trainer.items():
        spec = find_trainer(trainer)
        if len(own) > 1:
            seeds = {run.config.get("seed") for run in own}
            lines += checked_call(spec, "doubts")(config_object(own[0], spec), len(seeds))
    return lines


def other_versions(runs: Iterable[Run], home: Home) -> list[str]:
    """Return lines about runs of these configs from another version of the trainer; [] if there are none.

    They have other ids, so no report shows them. Configs that have a run of this version here as well are not counted.
    """
    ids = set(home.run_ids())
    missing = {(run.trainer, config_hash(run.config)): run.version for run in runs if run.id not in ids} if ids else {}
    found: Counter[tuple[str, str, str]] = Counter()
    for run_id in sorted(ids) if missing else ():
        meta = load_meta(home.run(run_id)) or {}
        trainer, version = str(meta.get("trainer", "")), str(meta.get("trainer_version", ""))
        asked = missing.get((trainer, meta.get("config_sha256", "")))
        if asked is not None and version != asked and home.run(run_id).result.exists():
            found[trainer, version, asked] += 1
    return [
        f"{counted(number, 'run')} of these configs {are(number)} here from {trainer} {theirs}, but {ours} is "
        f"installed. Another version makes other runs, so these are not shown: install {trainer} {theirs} to see them."
        for (trainer, theirs, ours), number in sorted(found.items())
    ]


def _by_config(trainer: str, digest: str) -> str:
    return canonical([trainer, digest])


def _by_axes(trainer: str, axes: Mapping[str, Any]) -> str:
    return canonical([trainer, {name: str(value) for name, value in axes.items()}])


def _is_of_config(run: Run, paths: RunPaths, meta: Mapping[str, Any]) -> bool:
    """Return True if a recorded run has the config of `run`, or one that differs only in keys that alter no result.

    The folders must be the same: in another folder, the same command is another script.
    """
    if meta.get("config_sha256") == config_hash(run.config):
        return True
    try:
        config = load_config(paths, meta)
    except HomeError:
        return False
    folders = schema_of(find_trainer(run.trainer).config_type).folders
    is_there = all(select(config, key) == select(run.config, key) for key in folders)
    return is_there and same_results(run, replace(run, config=config))


def _versions(meta: Mapping[str, Any], codes: Mapping[str, PluginCode]) -> list[str]:
    """Return the packages that a run's files import and that have another version now: `numpy 1.26.4 → 2.0.0`."""
    recorded = (meta.get("code") or {}).get("versions") or {}
    now = {name: version for code in codes.values() for name, version in code.packages.items()}
    return [f"{name} {recorded[name]} → {now[name]}" for name in now if recorded.get(name, now[name]) != now[name]]


def _changes(meta: Mapping[str, Any], codes: Mapping[str, PluginCode]) -> list[Change]:
    """Return the plug-ins whose files differ from those in the meta.json of a run."""
    recorded, changes = meta.get("plugin_code") or {}, []
    named = named_code(meta.get("identity") or {})
    for key, code in codes.items():
        files = code.changed_since(recorded[key]) if key in recorded else []
        if files:
            more = f" and {counted(len(files) - SHOWN, 'more file')}" if len(files) > SHOWN else ""
            changes.append(Change(key, ", ".join(files[:SHOWN]) + more, named.get(key, "")))
    return changes
