"""A run's directory: made once and whole, and mended when something is missing from it.

Promised: `create` is atomic (another process sees all of the directory or none) and idempotent (of any number of
callers one makes it, and every asking experiment file is noted in meta.json once, in order). Two different configs
never share a directory silently.
"""

from __future__ import annotations

import errno
import os
import shutil
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from plat.errors import HomeError, SpecError
from plat.spec.identity import SCHEME, is_operational
from plat.spec.run_code import code_keys, files_by_key
from plat.spec.schema import leaves
from plat.spec.trainer_calls import checked_call
from plat.store.durable import locked, scratch_name, set_aside, to_checked_json, write, write_file
from plat.store.home import Home
from plat.store.provenance.code_state import CodeState, collect
from plat.store.run_directory.config_text import to_yaml
from plat.store.run_directory.files import (
    config_hash,
    load_meta,
    meta_damage,
    read_attempt_meta,
    read_config,
    read_meta,
    recomputed_id,
)
from plat.store.run_directory.own_files import FORMAT, code_damage, hash_of, is_of_other
from plat.store.run_directory.paths import RunPaths
from plat.trainer.api import HEADLINE, find_trainer

if TYPE_CHECKING:
    from plat.spec.runs import Run


def create(
    home: Home, run: Run, experiment_name: str, *, paper: str | None = None, code: CodeState | None = None
) -> RunPaths:
    """Make the run's directory, or note in the existing one that this experiment asks for it too.

    SpecError when a different config already lives under the id; HomeError when the directory is another run's, or the
    home cannot be written.
    """
    paths = home.run(run.id)
    try:
        if not paths.root.exists() and _make(home, paths, run, experiment_name, paper, code):
            return paths
        if not _is_whole(paths):
            _mend(home, paths, run, experiment_name, paper, code)
        _note(home, paths, run, experiment_name, paper)
    except OSError as error:
        raise HomeError(
            f"cannot write the run's directory: {error.strerror or error}",
            where=str(error.filename or paths.root),
            mend="free some disk space or make the home writable, then give the same command again",
        ) from error
    return paths


def note_trial(home: Home, run_id: str, study: str, trial: str) -> None:
    """Note in the run's meta.json that a trial of a study asks for it; `trial` is its number."""
    paths = home.run(run_id)
    with locked(home.meta_lock):
        meta = read_meta(paths)
        studies = meta.setdefault("studies", {})
        if trial not in studies.setdefault(study, []):
            studies[study].append(trial)
            write(paths.meta, to_checked_json(meta))


def _make(home: Home, paths: RunPaths, run: Run, name: str, paper: str | None, code: CodeState | None) -> bool:
    """Make it beside its place and rename it; False when another process was first. No fsync: `_mend` is the net."""
    contents, meta = _contents(run, name, paper, code)  # it asks the trainer, whose code may fail
    scratch = scratch_name(home.root / run.id)  # beside runs/, where nobody lists it
    try:
        scratch.mkdir(parents=True)
        for file, data in {**contents, "meta.json": to_checked_json(meta)}.items():
            write_file(scratch / file, data, sync=False)
        try:
            os.rename(scratch, paths.root)
        except FileNotFoundError:  # the first run of its shard
            paths.root.parent.mkdir(exist_ok=True)
            os.rename(scratch, paths.root)
    except OSError as error:
        shutil.rmtree(scratch, ignore_errors=True)
        if error.errno in (errno.ENOTEMPTY, errno.EEXIST):
            return False
        raise
    return True


def _is_whole(paths: RunPaths) -> bool:
    """Whether nothing is to be written again. HomeError when meta.json is another run's: nobody knows what else is."""
    if is_of_other(meta_damage(paths)):
        read_meta(paths)
    return (
        paths.config.is_file()
        and paths.config.stat().st_size > 0
        and (meta := load_meta(paths)) is not None
        and not _lost_code(paths, meta)
    )


def lost_files(paths: RunPaths) -> list[str]:
    """The files of an existing run directory that `create` will write again, in words: `config.yaml was missing`."""
    if not paths.root.is_dir():
        return []
    lost = [] if os.path.lexists(paths.config) else [f"{paths.config.name} was missing"]
    if load_meta(paths) is None and not is_of_other(meta_damage(paths)):
        kept = os.path.lexists(paths.meta)
        lost.append(f"{paths.meta.name} was {'damaged: it is set aside' if kept else 'missing'}")
    return lost


def _lost_code(paths: RunPaths, meta: Mapping[str, Any]) -> bool:
    """Whether a run that was never started lacks what was recorded of its code. Later, that is damage."""
    return bool(code_damage(paths, meta)) and not os.path.lexists(paths.result) and not paths.attempts()


def _mend(home: Home, paths: RunPaths, run: Run, name: str, paper: str | None, code: CodeState | None) -> None:
    """Write again what a power cut (or somebody) has taken from a directory: it is a function of the run.

    A damaged meta.json, and a folder where a file should be, are set aside before. What was recorded of the code is
    not a function of the run: it is only written with a new meta.json, or where it was lost before the run was started.
    """
    with locked(home.meta_lock):
        if _is_whole(paths):
            return
        contents, fresh = _contents(run, name, paper, code)
        meta = load_meta(paths)
        if meta is not None:  # it knows who asked before us
            kept = meta | {"config_sha256": config_hash(run.config)}
            if _lost_code(paths, meta):
                kept |= {key: fresh[key] for key in ("code", "files")}
            else:
                contents = {"config.yaml": contents["config.yaml"]}
            contents["meta.json"] = to_checked_json(kept)
        else:
            if not all("run" in read_attempt_meta(attempt) for attempt in paths.attempts()):
                del fresh["format"]  # the run was begun by a plat whose files do not name their run
            contents["meta.json"] = to_checked_json(fresh)
            if "code.diff" not in contents:
                set_aside(paths.diff)
        for file, data in contents.items():
            path = paths.root / file
            if path.is_dir() or (path == paths.meta and meta is None):
                set_aside(path)
            write(path, data)


def _contents(
    run: Run, name: str, paper: str | None, code: CodeState | None
) -> tuple[dict[str, bytes], dict[str, Any]]:
    """File name -> content of a new run directory, but for meta.json; and what that says."""
    code = code or collect()
    meta = {
        "id": run.id,
        "format": FORMAT,
        "name": run.name,
        "trainer": run.trainer,
        "trainer_version": None,
        "identity_scheme": SCHEME,
        "axes": run.axes,
        "experiments": [name] if name else [],
        "fingerprint": {},
        "paper": paper,
        "scale": run.config.get("scale"),
        "iterations": None,
        "headline": HEADLINE,
        "prepare": list(run.prepare) if run.prepare else None,
        "resources": run.resources,
        "config_sha256": config_hash(run.config),
        "code": code.facts(),
        "created": time.time(),
    }
    meta.update(_trainer_facts(run))
    if recomputed_id({**meta, "identity": run.identity}, run.config) == run.id:
        meta["identity"] = run.identity  # so that an import elsewhere can hold the config against the id
    if code_keys(run.identity):
        meta["plugin_code"] = files_by_key(run.trainer, run.config, run.identity)
    changes = code.changes()
    files = {"code.txt": code.text().encode()}
    files |= {"code.diff": changes.encode(errors="surrogatepass")} if changes else {}
    meta["files"] = {file: hash_of(data) for file, data in files.items()}
    return {"config.yaml": to_yaml(run.config).encode(), **files}, meta


def _note(home: Home, paths: RunPaths, run: Run, name: str, paper: str | None) -> None:
    """Check that the directory is this run's, and add the experiment to those that asked for it."""
    meta = read_meta(paths)
    if meta.get("config_sha256") != config_hash(run.config):
        _compare(paths, run)
    if not name or name in meta["experiments"]:
        return
    with locked(home.meta_lock):
        meta = read_meta(paths)
        if name not in meta["experiments"]:
            meta["experiments"].append(name)
            meta["paper"] = meta.get("paper") or paper
            write(paths.meta, to_checked_json(meta))


def _compare(paths: RunPaths, run: Run) -> None:
    """SpecError unless the two configs differ only in what is left out of the identity."""
    spec = find_trainer(run.trainer)
    before, now = leaves(read_config(paths)), leaves(run.config)

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
            mend="move that directory away; if nobody edited it, this is a mistake in the identity: please report it",
        )


def _trainer_facts(run: Run) -> dict[str, Any]:
    """What the trainer says of the run; a run that was not made from a file, but read from a directory, lacks some."""
    from plat.spec.experiment import config_object

    spec = find_trainer(run.trainer)
    is_known = run.version == spec.version
    return {
        "trainer_version": spec.version,
        "fingerprint": run.fingerprint if is_known else checked_call(spec, "fingerprint")(config_object(run, spec)),
        "iterations": checked_call(spec, "iterations")(run.config),
        "headline": spec.headline,
    }
