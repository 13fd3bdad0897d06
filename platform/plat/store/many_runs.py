"""Read the states, descriptions and configs of many runs of a home from their run directories."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

from plat.errors import HomeError
from plat.plain_files import read_text
from plat.store.home import Home
from plat.store.mlflow.run_tags import flatten
from plat.store.run_directory.config_text import load_by_sections
from plat.store.run_directory.paths import RunPaths
from plat.store.run_directory.run_files import load_meta, read_config
from plat.store.run_directory.state import RunState, run_state

SAMPLE = 64  # runs whose reading is timed to detect a slow file system
SLOW = 2e-3  # seconds for one run; a network file system takes longer, a local one about a tenth of it
THREADS = 16  # for a slow file system

Difference = dict[str, tuple[Any, Any]]  # dotted key -> (value here, value there); None if the key is absent
T = TypeVar("T")


class Description(NamedTuple):
    """The description of a run, from its meta.json."""

    name: str  # readable name; the id if meta.json has none
    axes: dict[str, Any]  # axis -> value, for the first file that asked for it
    experiments: tuple[str, ...]  # files that ask for it, including searches
    searches: tuple[str, ...]  # searches that ask for it
    config_sha256: str  # hash of its config, "" if not recorded
    needs: str | None  # key of the preparation that it needs (for example a base model), or None


def states(home: Home, ids: Iterable[str] | None = None) -> dict[str, RunState]:
    """Return id -> state, as `run_state` returns it, in this order (default: all run directories, by id)."""
    return _of_each(run_state, home, home.run_ids() if ids is None else list(dict.fromkeys(ids)))


def descriptions(home: Home, ids: Iterable[str]) -> dict[str, Description]:
    """Return id -> description, in this order. Without a readable meta.json, `name` is the id, all else is empty."""
    return _of_each(_description, home, list(dict.fromkeys(ids)))


def flat_config(paths: RunPaths) -> dict[str, Any]:
    """Return the resolved config of a run with dotted keys; {} if it cannot be read."""
    try:
        return flatten(read_config(paths))
    except HomeError:
        return {}


def nearest(home: Home, run: RunPaths) -> tuple[RunPaths | None, Difference]:
    """Return the other run of this home whose config differs in the fewest values, and the difference.

    Of several such runs the first by id is returned. Returns (None, {}) if no other config can be read.
    """
    mine = flat_config(run)
    best: tuple[RunPaths | None, Difference] = (None, {})
    for run_id, config in _of_each(flat_config, home, home.run_ids()).items():
        if config and run_id != run.id:
            difference = _difference(mine, config)
            if best[0] is None or len(difference) < len(best[1]):
                best = (home.run(run_id), difference)
    return best


def agreeing(home: Home, wanted: Sequence[Mapping[str, Any]]) -> list[list[str]]:
    """Return one list of run ids, sorted, for each mapping of dotted keys to values: the runs that have these values.

    A key that a run lacks agrees: it was added later, with a default that changes nothing. The configs are not compared
    with their recorded hashes, for speed: check those that agree with `flat_config`.
    """
    found: list[list[str]] = [[] for _ in wanted]
    for run_id, config in _of_each(_unchecked_config, home, home.run_ids()).items() if wanted else ():
        for ids, keys in zip(found, wanted, strict=True):
            if config and all(_value(config, key, value) == value for key, value in keys.items()):
                ids.append(run_id)
    return found


def _unchecked_config(paths: RunPaths) -> dict[str, Any]:
    """Return the resolved config of a run, perhaps edited; {} if it cannot be read."""
    try:
        return load_by_sections(read_text(paths.config)) or {}
    except (OSError, ValueError):
        return {}


def _value(config: Mapping[str, Any], key: str, default: Any) -> Any:
    """Return the value of a dotted key in a nested config."""
    value: Any = config
    for part in key.split("."):
        if not isinstance(value, Mapping) or part not in value:
            return default
        value = value[part]
    return value


def _description(paths: RunPaths) -> Description:
    meta = load_meta(paths) or {}
    return Description(
        str(meta.get("name", paths.id)),
        meta.get("axes") or {},
        tuple(meta.get("experiments") or ()),
        tuple(meta.get("studies") or {}),
        str(meta.get("config_sha256") or ""),
        str(meta["prepare"][0]) if meta.get("prepare") else None,
    )


def _difference(mine: Mapping[str, Any], other: Mapping[str, Any]) -> Difference:
    keys = sorted(mine.keys() | other.keys())
    return {key: (mine.get(key), other.get(key)) for key in keys if mine.get(key) != other.get(key)}


def _of_each(read: Callable[[RunPaths], T], home: Home, ids: Sequence[str]) -> dict[str, T]:
    """Return id -> what `read` returns of the run; on a slow file system, with threads."""
    started = time.perf_counter()
    values = [read(home.run(run_id)) for run_id in ids[:SAMPLE]]
    rest = [home.run(run_id) for run_id in ids[SAMPLE:]]
    if not rest or time.perf_counter() - started < SLOW * SAMPLE:
        values += map(read, rest)
    else:
        from concurrent.futures import ThreadPoolExecutor

        with ThreadPoolExecutor(THREADS) as pool:
            values += pool.map(read, rest)
    return dict(zip(ids, values, strict=True))
