"""Find the run with the most similar config, or the runs with given values, without reading every config.yaml.

The index stores a config as the numbers of its (dotted key, value) pairs; the runs of a home share most pairs.
"""

from __future__ import annotations

import json
from array import array
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from plat.errors import HomeError
from plat.store.home import Home
from plat.store.index.database import number_pairs, read_pairs
from plat.store.index.remembered import Remembered, stamps
from plat.store.mlflow.spelling import flatten
from plat.store.run_directory.paths import RunPaths
from plat.store.run_directory.run_files import read_config

if TYPE_CHECKING:
    import numpy as np

FEW = 100  # up to this number of runs, read the configs without the index
AT_ONCE = 500  # configs whose pairs are numbered in one transaction
TYPE_OF_NUMBERS = "I"  # of array and numpy: 4 bytes

Difference = dict[str, tuple[Any, Any]]  # dotted key -> (value here, value there); None if the key is absent


def nearest(home: Home, run: RunPaths) -> tuple[RunPaths | None, Difference]:
    """Return the other run of this home whose config differs in the fewest values, and the difference.

    The difference is a dict: dotted key -> (value in `run`, value in the other run), None for an absent key. Of several
    such runs the first by id is returned. Returns (None, {}) if no other config can be read.
    """
    ids = [other for other in home.run_ids() if other != run.id]
    mine = flat_config(run)
    if len(ids) > FEW:
        likely, expected = _nearest_remembered(home, mine, ids)
        if likely is not None:
            difference = _difference(mine, flat_config(home.run(likely)))
            if len(difference) == expected:  # else the index is wrong: read all configs
                return home.run(likely), difference
    best: tuple[RunPaths | None, Difference] = (None, {})
    for other in ids:
        config = flat_config(home.run(other))
        difference = _difference(mine, config)
        if config and (best[0] is None or len(difference) < len(best[1])):
            best = (home.run(other), difference)
    return best


def agreeing(home: Home, wanted: Sequence[Mapping[str, Any]]) -> list[list[str]]:
    """Return one list of run ids, sorted, for each mapping of dotted keys to values: the runs that have these values.

    A key that a run lacks agrees: it was added later, with a default that changes nothing. In a home of more than FEW
    runs the answer comes from the index, which may be wrong: check each run's config (`flat_config`).
    """
    ids = home.run_ids()
    if len(ids) <= FEW:
        configs = {run_id: config for run_id in ids if (config := flat_config(home.run(run_id)))}
        return [
            [run for run, has in configs.items() if all(has.get(key, value) == value for key, value in keys.items())]
            for keys in wanted
        ]
    configs_by_id = _numbers_of_configs(home, ids)
    found = []
    for keys in wanted:
        _, same, keyed = _counts(home, keys, configs_by_id)
        found.append([run_id for run_id, others in zip(configs_by_id, keyed - same, strict=True) if others == 0])
    return found


def flat_config(paths: RunPaths) -> dict[str, Any]:
    """Return the resolved config of a run with dotted keys; {} if it cannot be read."""
    try:
        return flatten(read_config(paths))
    except HomeError:
        return {}


def _difference(mine: Mapping[str, Any], other: Mapping[str, Any]) -> Difference:
    keys = sorted(mine.keys() | other.keys())
    return {key: (mine.get(key), other.get(key)) for key in keys if mine.get(key) != other.get(key)}


def _nearest_remembered(home: Home, mine: Mapping[str, Any], ids: Sequence[str]) -> tuple[str | None, int]:
    """Return the nearest of these runs by the updated index, and how many values differ; (None, 0) without an index."""
    import numpy as np

    configs = _numbers_of_configs(home, ids)
    if not configs:
        return None, 0
    pairs, same, keyed = _counts(home, mine, configs)
    # A key differs if the other run has another value or none, or if only the other run has the key.
    distances = pairs - same + (len(_pairs(mine)) - keyed)
    best = int(np.argmin(distances))
    return list(configs)[best], int(distances[best])


def _counts(
    home: Home, mine: Mapping[str, Any], configs: Mapping[str, bytes]
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return for each of these configs the number of its pairs, of those in `mine`, and of those with a key of `mine`.

    The arrays have shape (len(configs),).
    """
    import numpy as np

    numbers = np.frombuffer(b"".join(configs.values()), dtype=TYPE_OF_NUMBERS)  # run after run
    lengths = np.array([len(pairs) // numbers.itemsize for pairs in configs.values()], dtype=np.int64)
    own, pairs = dict(_pairs(mine)), read_pairs(home)
    size = 1 + max([int(numbers.max(initial=0)), *(number for number, _, _ in pairs)])
    flags = np.zeros((2, size), np.uint8)  # by the number of a pair: it is in `mine`; its key is
    for number, key, value in pairs:
        if key in own:
            flags[:, number] = (own[key] == value, True)
    if not configs:
        return lengths, lengths, lengths
    starts = np.cumsum(lengths) - lengths  # no config is empty, as `reduceat` needs
    same, keyed = (np.add.reduceat(flag[numbers], starts, dtype=np.int32) for flag in flags)
    return lengths, same, keyed


def _numbers_of_configs(home: Home, ids: Sequence[str]) -> dict[str, bytes]:
    """Return id -> numbers of its pairs, as bytes, in the order of `ids`, for every run whose config can be read."""
    remembered = Remembered(home, "configs", lambda paths: None)
    marks = stamps([f"{home.run_folder(run_id)}/config.yaml" for run_id in ids])
    configs: dict[str, bytes] = {}
    new: list[tuple[str, str]] = []
    for run_id, mark in zip(ids, marks, strict=True):
        columns = remembered.get(run_id, mark)
        if columns is not None:
            configs[run_id] = columns[0]
        elif mark is not None:
            new.append((run_id, mark))
    for start in range(0, len(new), AT_ONCE):
        configs |= _numbered(home, new[start : start + AT_ONCE], remembered)
    remembered.save()
    return {run_id: configs[run_id] for run_id in ids if run_id in configs}


def _numbered(home: Home, runs: Sequence[tuple[str, str]], remembered: Remembered) -> dict[str, bytes]:
    """Read the configs of some runs (id, stamp), number their pairs, and add the numbers to `remembered`."""
    pairs = {run_id: _pairs(flat_config(home.run(run_id))) for run_id, _ in runs}
    numbers = number_pairs(home, {pair for of_run in pairs.values() for pair in of_run})
    configs = {
        run_id: array(TYPE_OF_NUMBERS, sorted(numbers[pair] for pair in of_run)).tobytes()
        for run_id, of_run in pairs.items()
        if of_run and numbers.keys() >= set(of_run)
    }
    for run_id, mark in runs:
        if run_id in configs:
            remembered.put(run_id, mark, (configs[run_id],))
    return configs


def _pairs(config: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return (key, value as text) of all values but None; equal numbers have the same text."""
    return [(key, _spelled(value)) for key, value in config.items() if value is not None]


def _spelled(value: Any) -> str:
    return _text(value) if isinstance(value, list | dict) else _text_of_scalar(value)


def _text(value: Any) -> str:
    return json.dumps(int(value) if isinstance(value, float) and value.is_integer() else value, sort_keys=True)


_text_of_scalar = lru_cache(10_000, typed=True)(_text)  # the configs of a home have few distinct values
