"""Accept a changed config of an existing run if only keys changed that its identity leaves out."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from plat.errors import SpecError
from plat.spec.composition.schema import leaves
from plat.spec.identity.run_identity import is_operational
from plat.store.disk.durable import locked, to_checked_json, write
from plat.store.home import Home
from plat.store.run_directory import lease, run_files
from plat.store.run_directory.config_text import to_yaml
from plat.store.run_directory.paths import RunPaths
from plat.trainer.finding import find_trainer
from plat.words.states import LeaseState

if TYPE_CHECKING:
    from plat.spec.expansion.run import Run


def compare(paths: RunPaths, run: Run) -> None:
    """Raise SpecError unless the recorded config and the run's differ only in keys that the identity leaves out."""
    spec = find_trainer(run.trainer)
    before, now = leaves(run_files.read_config(paths)), leaves(run.config)

    def counts(key: str) -> bool:
        if is_operational(key, spec.operational_keys):
            return False
        legacy = {spec.legacy[key]} if key in spec.legacy else set()
        return bool({repr(before.get(key)), repr(now.get(key))} - {repr(value) for value in legacy} - {repr(None)})

    wrong = [key for key in sorted({*before, *now}) if before.get(key) != now.get(key) and counts(key)]
    if wrong:
        key = wrong[0]
        raise SpecError(
            f"two configs share the id {run.id}: {key} is {before.get(key)!r} there and {now.get(key)!r} here",
            where=str(paths.config),
            fix="move that directory away; if it was not edited, this is a mistake in the identity: please report it",
        )


def record(home: Home, paths: RunPaths, run: Run) -> None:
    """Let the next attempt of a run have these values of keys such as a timeout. A done or a live run stays as it is.

    A kill leaves a config without its hash, which is accepted.
    """
    if os.path.lexists(paths.result) or lease.state(paths) not in (LeaseState.FREE, LeaseState.ORPHAN):
        return
    with locked(home.meta_lock):
        meta = run_files.read_meta(paths)
        write(paths.meta, to_checked_json({key: value for key, value in meta.items() if key != "config_sha256"}))
        write(paths.config, to_yaml(run.config).encode())
        write(paths.meta, to_checked_json({**meta, "config_sha256": run_files.config_hash(run.config)}))
