"""Create a run's directory, and restore files that are missing from it.

`create` is atomic (another process sees the whole directory or none) and idempotent (one of several callers makes it,
and meta.json lists each requesting experiment file once, in order). Two different configs never share a directory
silently.
"""

from __future__ import annotations

import errno
import os
import shutil
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from plat.errors import HomeError, SpecError
from plat.plugins.plugin_code import FILES
from plat.spec.composition.schema import leaves
from plat.spec.composition.trainer_calls import checked_call
from plat.spec.identity.run_identity import SCHEME, is_operational, named_code, run_code
from plat.store.disk.durable import locked, scratch_name, set_aside, to_checked_json, write, write_file
from plat.store.home import Home
from plat.store.provenance.code_state import CodeState, collect, of_file
from plat.store.run_directory import lease, run_files
from plat.store.run_directory.config_text import to_yaml
from plat.store.run_directory.own_files import FORMAT, code_damage, hash_of
from plat.store.run_directory.paths import RunPaths
from plat.trainer.api import HEADLINE
from plat.trainer.finding import find_trainer
from plat.words.metric_names import own_metric
from plat.words.states import LeaseState

if TYPE_CHECKING:
    from plat.spec.expansion.run import Run


def create(
    home: Home, run: Run, experiment_name: str, *, paper: str | None = None, code: CodeState | None = None
) -> RunPaths:
    """Create the run's directory, or complete an existing one; return its paths.

    An existing directory gets its missing files; `experiment_name` (unless it is "") and a first `paper` are added to
    its meta.json. `code` is the state of the code for a new directory (default: `collect()`).

    Raises SpecError if the directory has a different config; HomeError if its meta.json is of another run, or the home
    cannot be written.
    """
    paths = home.run(run.id)
    try:
        # The contents come first: they call the trainer's code, which may fail.
        if not paths.root.exists() and _make(home, paths, *_contents(run, experiment_name, paper, code)):
            return paths
        if not _has_all_files(paths):
            _fix(home, paths, *_contents(run, experiment_name, paper, code))
        _note(home, paths, run, experiment_name, paper)
    except OSError as error:
        raise HomeError(
            f"cannot write the run's directory: {error.strerror or error}",
            where=str(error.filename or paths.root),
            fix="free some disk space or make the home writable, then give the same command again",
        ) from error
    return paths


def note_trial(home: Home, run_id: str, study: str, trial: str) -> None:
    """Add a trial of a study to the run's meta.json; `trial` is the trial's number as text.

    Raises HomeError if meta.json is missing, damaged or of another run.
    """
    paths = home.run(run_id)
    with locked(home.meta_lock):
        meta = run_files.read_meta(paths)
        studies = meta.setdefault("studies", {})
        if trial not in studies.setdefault(study, []):
            studies[study].append(trial)
            write(paths.meta, to_checked_json(meta))


def _make(home: Home, paths: RunPaths, contents: dict[str, bytes], meta: dict[str, Any]) -> bool:
    """Write the directory under a scratch name and rename it; return False if another process was first."""
    scratch = scratch_name(home.root / paths.id)  # outside runs/, so that it is never listed as a run
    try:
        scratch.mkdir(parents=True)
        for file, data in {**contents, "meta.json": to_checked_json(meta)}.items():
            write_file(scratch / file, data, sync=False)  # after a power cut, `_fix` writes lost files again
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


def _has_all_files(paths: RunPaths) -> bool:
    """Return True if no file has to be written again. Raises HomeError if meta.json is of another run."""
    damage = run_files.meta_damage(paths)
    if damage and damage.foreign:
        run_files.read_meta(paths)
    return (
        paths.config.is_file()
        and paths.config.stat().st_size > 0
        and (meta := run_files.load_meta(paths)) is not None
        and not _lost_code(paths, meta)
    )


def lost_files(paths: RunPaths) -> list[str]:
    """Say which of config.yaml and meta.json `create` will write again, e.g. `config.yaml was missing`; [] if none."""
    if not paths.root.is_dir():
        return []
    lost = [] if os.path.lexists(paths.config) else [f"{paths.config.name} was missing"]
    damage = run_files.meta_damage(paths)
    if damage and not damage.foreign:
        lost.append(f"{paths.meta.name} was damaged: it is set aside")
    elif not damage and run_files.load_meta(paths) is None:
        lost.append(f"{paths.meta.name} was missing")
    return lost


def _lost_code(paths: RunPaths, meta: Mapping[str, Any]) -> bool:
    """Return True if a run without attempts lost code.txt. In a started run that is damage."""
    return bool(code_damage(paths, meta)) and not os.path.lexists(paths.result) and not paths.attempts()


def _fix(home: Home, paths: RunPaths, contents: dict[str, bytes], fresh: dict[str, Any]) -> None:
    """Write missing files of a directory again, e.g. after a power cut. Set aside a damaged meta.json.

    The code files are written only with a new meta.json, or if they were lost before the first attempt: the code may
    differ by now.
    """
    with locked(home.meta_lock):
        if _has_all_files(paths):
            return
        meta = run_files.load_meta(paths)
        if meta is not None:  # keep the experiments and trials that it lists
            kept = meta | {"config_sha256": fresh["config_sha256"]}
            if _lost_code(paths, meta):
                kept |= {key: fresh[key] for key in ("code", "files")}
            else:
                contents = {"config.yaml": contents["config.yaml"]}
            contents["meta.json"] = to_checked_json(kept)
        else:
            contents["meta.json"] = to_checked_json(fresh)
            set_aside(paths.diff)
        for file, data in contents.items():
            path = paths.root / file
            if path.is_dir() or (path == paths.meta and meta is None):
                set_aside(path)
            write(path, data)


def _contents(
    run: Run, name: str, paper: str | None, code: CodeState | None
) -> tuple[dict[str, bytes], dict[str, Any]]:
    """Return (file name -> content without meta.json, the content of meta.json) of a new run directory."""
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
        "config_sha256": run_files.config_hash(run.config),
        "code": code.facts(),
        "created": time.time(),
    }
    meta.update(_trainer_facts(run))
    if run_files.recomputed_id({**meta, "identity": run.identity}, run.config) == run.id:
        meta["identity"] = run.identity  # so that an import can check the config against the id
    if named_code(run.identity):
        codes = run_code(run.trainer, run.config, run.identity)
        if FILES in codes and (first := codes[FILES].first):
            code = of_file(code, first.resolve())
            meta["code"] = code.facts()
        meta["plugin_code"] = {key: dict(each.files) for key, each in codes.items()}
        facts = code.facts()
        imported = {name: version for each in codes.values() for name, version in each.packages.items()}
        meta["code"] = {**facts, "versions": {**facts["versions"], **imported}}
    files = {"code.txt": code.text().encode()}
    meta["files"] = {file: hash_of(data) for file, data in files.items()}
    return {"config.yaml": to_yaml(run.config).encode(), **files}, meta


def _note(home: Home, paths: RunPaths, run: Run, name: str, paper: str | None) -> None:
    """Check the directory's config, take over values of its operational keys, and note the experiment in meta.json."""
    meta = run_files.read_meta(paths)
    if meta.get("config_sha256") != run_files.config_hash(run.config):
        compare(paths, run)
        record(home, paths, run)
    if not name or name in meta["experiments"]:
        return
    with locked(home.meta_lock):
        meta = run_files.read_meta(paths)
        if name not in meta["experiments"]:
            meta["experiments"].append(name)
            meta["paper"] = meta.get("paper") or paper
            write(paths.meta, to_checked_json(meta))


def _trainer_facts(run: Run) -> dict[str, Any]:
    """Return the facts in meta.json that the trainer provides."""
    from plat.spec.expansion.experiment import config_object

    spec = find_trainer(run.trainer)
    is_known = run.version == spec.version  # not in a run that was read from a directory
    return {
        "trainer_version": spec.version,
        "fingerprint": run.fingerprint if is_known else checked_call(spec, "fingerprint")(config_object(run, spec)),
        "iterations": checked_call(spec, "iterations")(run.config),
        "headline": checked_call(spec, "headline")(run.config),
        **({"metric": own} if (own := own_metric(run.config)[0]) else {}),
    }


# Accept a changed config of an existing run if only keys changed that its identity leaves out.


def compare(paths: RunPaths, run: Run) -> None:
    """Raise SpecError unless the recorded config and the run's differ only in keys that the identity leaves out."""
    spec = find_trainer(run.trainer)
    before, now = leaves(run_files.read_config(paths)), leaves(run.config)
    left_out = run.identity.get("left_out", ())  # has the options of a plug-in that are as before they were there

    def counts(key: str) -> bool:
        if is_operational(key, spec.operational_keys) or (key in left_out and key not in before):
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
