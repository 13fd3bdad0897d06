"""A run's directory: made once and whole, then read by everybody.

Promised: `create` is atomic (another process sees all of the directory or none) and idempotent (of any number of
callers one makes it, and every asking experiment file is noted in meta.json once, in order). Two different configs
never share a directory silently. `run_state` of a finished run opens one file.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import os
import shutil
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from plat.errors import HomeError, SpecError
from plat.outcomes import is_failure
from plat.store import lease
from plat.store.code_state import CodeState, collect
from plat.store.durable import locked, read_json, scratch_name, to_json, write, write_file
from plat.store.home import Home, RunPaths
from plat.store.spool_tail import read_newest
from plat.trainer.api import HEADLINE, find_trainer

if TYPE_CHECKING:
    from plat.spec.experiment import Run

STATES = ("done", "running", "unknown", "failed", "interrupted", "missing")


@dataclass(frozen=True)
class RunState:
    """Where a run stands.

    state       one of STATES; a cancelled run is "interrupted" with outcome "cancelled"
    outcome     how the run (done) or its last attempt ended, None while it runs or before it started
    step        newest step logged, None before the first; `success` is the newest value of its headline metric
    iterations  of the whole run, None when its config does not say
    attempt     number of the newest attempt, 0 before the first
    age         seconds since the last sign of life
    reason      why the last attempt ended, one line
    """

    state: str
    outcome: str | None = None
    step: int | None = None
    success: float | None = None
    iterations: int | None = None
    attempt: int = 0
    age: float | None = None
    reason: str = ""


def create(
    home: Home, run: Run, experiment_name: str, *, paper: str | None = None, code: CodeState | None = None
) -> RunPaths:
    """Make the run's directory, or note in the existing one that this experiment asks for it too.

    SpecError when a different config already lives under the id; HomeError when the home cannot be written.
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
            where=str(paths.root),
            mend="free some disk space or make the home writable, then give the same command again",
        ) from error
    return paths


def _make(home: Home, paths: RunPaths, run: Run, name: str, paper: str | None, code: CodeState | None) -> bool:
    """Make it beside its place and rename it; False when another process was first. No fsync: `_mend` is the net."""
    scratch = scratch_name(home.root / run.id)  # beside runs/, where nobody lists it
    try:
        scratch.mkdir(parents=True)
        for file, data in _contents(run, name, paper, code).items():
            write_file(scratch / file, data, sync=False)
        os.rename(scratch, paths.root)
    except OSError as error:
        shutil.rmtree(scratch, ignore_errors=True)
        if error.errno in (errno.ENOTEMPTY, errno.EEXIST):
            return False
        raise
    return True


def _is_whole(paths: RunPaths) -> bool:
    try:
        return paths.config.stat().st_size > 0 and read_json(paths.meta) is not None
    except OSError:
        return False


def _mend(home: Home, paths: RunPaths, run: Run, name: str, paper: str | None, code: CodeState | None) -> None:
    """Write again what a power cut (or somebody) has taken from a directory: it is a function of the run."""
    with locked(home.meta_lock):
        if not _is_whole(paths):
            contents = _contents(run, name, paper, code)
            if read_json(paths.meta) is not None:
                del contents["meta.json"]  # it knows who asked before us
            for file, data in contents.items():
                write(paths.root / file, data)


def _contents(run: Run, name: str, paper: str | None, code: CodeState | None) -> dict[str, bytes]:
    """File name -> content of a new run directory."""
    code = code or collect()
    meta = {
        "id": run.id,
        "name": run.name,
        "trainer": run.trainer,
        "trainer_version": None,
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
    diff = {"code.diff": code.diff.encode()} if code.diff else {}
    config = to_yaml(run.config).encode()
    return {"config.yaml": config, "code.txt": code.text().encode(), **diff, "meta.json": to_json(meta)}


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
            write(paths.meta, to_json(meta))


def _compare(paths: RunPaths, run: Run) -> None:
    """SpecError unless the two configs differ only in what is left out of the identity."""

    spec = find_trainer(run.trainer)
    before, now = _flat(read_config(paths)), _flat(run.config)

    def counts(key: str) -> bool:
        if any(key == name or key.startswith(name + ".") for name in spec.operational_keys):
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


def _flat(value: Any, prefix: str = "") -> dict[str, Any]:
    if not isinstance(value, dict):
        return {prefix: value}
    return {
        key: leaf for name, inner in value.items() for key, leaf in _flat(inner, f"{prefix}.{name}".lstrip(".")).items()
    }


def _trainer_facts(run: Run) -> dict[str, Any]:
    from plat.spec.experiment import config_object

    spec = find_trainer(run.trainer)
    return {
        "trainer_version": spec.version,
        "fingerprint": spec.fingerprint(config_object(run, spec)),
        "iterations": spec.iterations(run.config),
        "headline": spec.headline,
    }


# --- reading --------------------------------------------------------------------------------------------------------


def config_hash(config: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(config, sort_keys=True).encode()).hexdigest()


def to_yaml(config: dict[str, Any]) -> str:
    import yaml

    class Plain(getattr(yaml, "CSafeDumper", yaml.SafeDumper)):  # type: ignore[misc]
        def ignore_aliases(self, data: Any) -> bool:
            return True  # parts of a config may be shared objects; the file says each value in full

    return yaml.dump(config, Dumper=Plain, sort_keys=False, allow_unicode=True, default_flow_style=False)


def read_config(paths: RunPaths) -> dict[str, Any]:
    """The resolved config; HomeError when the file is missing or damaged."""
    import yaml

    try:
        found = yaml.load(
            paths.config.read_text(encoding="utf-8"), Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader)
        )
        if isinstance(found, dict):
            return found
        problem = "it is not a mapping"
    except (OSError, yaml.YAMLError, UnicodeDecodeError) as error:
        problem = str(error)
    raise HomeError(
        f"the run's config cannot be read: {problem}",
        where=str(paths.config),
        mend="remove the run's directory and give the same command again; the run is then made anew",
    )


def read_meta(paths: RunPaths) -> dict[str, Any]:
    """meta.json; HomeError when it is missing or damaged."""
    found = read_json(paths.meta)
    if found is None:
        raise HomeError(
            "the run's meta.json is missing or not readable",
            where=str(paths.meta),
            mend="remove the run's directory and give the same command again; the run is then made anew",
        )
    found.setdefault("experiments", [])
    return found


def read_result(paths: RunPaths) -> dict[str, Any] | None:
    """result.json, or None: the run is not done."""
    return read_json(paths.result)


def headline_of(meta: Mapping[str, Any] | None) -> str:
    """The metric that a run shows as success, from its meta.json; the usual one where that does not say."""
    return str((meta or {}).get("headline") or HEADLINE)


def run_state(paths: RunPaths) -> RunState:
    """Where the run stands, from its files alone."""
    result = read_result(paths)
    if result is not None:
        return RunState(
            "done",
            result.get("outcome"),
            result.get("step"),
            result.get("success"),
            result.get("iterations"),
            result.get("attempt", 0),
            time.time() - result.get("time", time.time()),
            result.get("reason", ""),
        )
    meta = read_json(paths.meta)
    if meta is None:
        return RunState("missing")
    iterations, headline = meta.get("iterations"), headline_of(meta)
    attempts = paths.attempts()
    held = lease.state(paths)
    if held == "live" or (held == "unknown" and not (attempts and attempts[-1].outcome.exists())):
        step, success, age = last_progress(attempts[-1].events, headline) if attempts else (None, None, None)
        number = attempts[-1].number if attempts else 0
        return RunState("running" if held == "live" else "unknown", None, step, success, iterations, number, age)
    if not attempts:
        return RunState("missing", iterations=iterations)
    ended = read_json(attempts[-1].outcome)
    if ended is None:  # killed before it could say anything
        step, success, age = last_progress(attempts[-1].events, headline)
        return RunState(
            "interrupted", None, step, success, iterations, attempts[-1].number, age, "the process vanished"
        )
    return RunState(
        "failed" if is_failure(str(ended.get("outcome", ""))) else "interrupted",
        ended.get("outcome"),
        ended.get("step"),
        ended.get("success"),
        iterations,
        attempts[-1].number,
        time.time() - ended.get("time", time.time()),
        ended.get("reason", ""),
    )


def last_progress(events: Path, headline: str = HEADLINE) -> tuple[int | None, float | None, float | None]:
    """(newest step, newest value of the headline metric, seconds since the last event) of a spool."""
    newest = read_newest(events, headline)
    age = None
    with contextlib.suppress(OSError):
        age = max(0.0, time.time() - events.stat().st_mtime)
    return newest.step, newest.value, age
