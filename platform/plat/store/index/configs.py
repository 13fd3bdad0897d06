"""Which runs of a home have the config most like a given one's, or certain values, without reading every config.yaml.

A config is remembered as the numbers of its (dotted key, value) pairs, of which the runs of a home share most. The run
that these say is the nearest is then read and compared; if it is not as remembered, all configs are read.
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
from plat.store.index.remembered import Remembered
from plat.store.index.stamp import stamps
from plat.store.mlflow.spelling import flatten
from plat.store.run_directory.files import read_config
from plat.store.run_directory.paths import RunPaths

if TYPE_CHECKING:
    import numpy as np

FEW = 100  # runs whose configs are read, without an index
AT_ONCE = 500  # configs that are read before their pairs are numbered
TYPE_OF_NUMBERS = "I"  # of array and numpy: 4 bytes

Difference = dict[str, tuple[Any, Any]]  # dotted key -> (value here, value there), None where the key is absent


def nearest(home: Home, run: RunPaths) -> tuple[RunPaths | None, Difference]:
    """The run of this home, other than the given one, whose config differs in the fewest values, and those values.

    Of several the first by id; (None, {}) when there is no other whose config can be read.
    """
    ids = [other for other in home.run_ids() if other != run.id]
    mine = flat_config(run)
    if len(ids) > FEW:
        likely, expected = _nearest_remembered(home, mine, ids)
        if likely is not None:
            difference = _difference(mine, flat_config(home.run(likely)))
            if len(difference) == expected:
                return home.run(likely), difference
    best: tuple[RunPaths | None, Difference] = (None, {})
    for other in ids:
        config = flat_config(home.run(other))
        difference = _difference(mine, config)
        if config and (best[0] is None or len(difference) < len(best[1])):
            best = (home.run(other), difference)
    return best


def agreeing(home: Home, wanted: Sequence[Mapping[str, Any]]) -> list[list[str]]:
    """For each of these sets of dotted keys and values, the runs that have no other value at any of the keys, by id.

    A key that a run lacks came after it, with a default that changes nothing. What more than FEW runs have is as the
    index remembers it: read the config of a run (`flat_config`) before you rely on it.
    """
    ids = home.run_ids()
    if len(ids) <= FEW:
        configs = [(run_id, config) for run_id in ids if (config := flat_config(home.run(run_id)))]
        return [
            [
                run_id
                for run_id, config in configs
                if all(config.get(key, value) == value for key, value in keys.items())
            ]
            for keys in wanted
        ]
    remembered = _numbers_of_configs(home, ids)
    known = [run_id for run_id in ids if run_id in remembered]
    return [_agreeing_remembered(home, keys, known, remembered) for keys in wanted] if known else [[] for _ in wanted]


def flat_config(paths: RunPaths) -> dict[str, Any]:
    """A resolved config as dotted keys; empty when it cannot be read."""
    try:
        return flatten(read_config(paths))
    except HomeError:
        return {}


def _difference(mine: Mapping[str, Any], other: Mapping[str, Any]) -> Difference:
    keys = sorted(mine.keys() | other.keys())
    return {key: (mine.get(key), other.get(key)) for key in keys if mine.get(key) != other.get(key)}


def _nearest_remembered(home: Home, mine: Mapping[str, Any], ids: Sequence[str]) -> tuple[str | None, int]:
    """The nearest of these runs, and in how many values it differs, as far as the index knows after reading what is new
    to it; (None, 0) when it cannot be used."""
    import numpy as np

    configs = _numbers_of_configs(home, ids)
    known = [run_id for run_id in ids if run_id in configs]
    if not known:
        return None, 0
    numbers, lengths = _joined(known, configs)
    is_mine, has_my_key = _tables(read_pairs(home), mine, int(numbers.max(initial=0)))
    # A key differs where the other run has another value, or none, or where only the other run has it.
    not_mine = _sums(~is_mine[numbers], lengths)
    my_keys = _sums(has_my_key[numbers], lengths)
    distances = not_mine + (len(_pairs(mine)) - my_keys)
    best = int(np.argmin(distances))
    return known[best], int(distances[best])


def _agreeing_remembered(
    home: Home, keys: Mapping[str, Any], known: Sequence[str], configs: Mapping[str, bytes]
) -> list[str]:
    numbers, lengths = _joined(known, configs)
    is_mine, has_my_key = _tables(read_pairs(home), keys, int(numbers.max(initial=0)))
    others = _sums((has_my_key & ~is_mine)[numbers], lengths)
    return [run_id for run_id, count in zip(known, others, strict=True) if count == 0]


def _joined(known: Sequence[str], configs: Mapping[str, bytes]) -> tuple[np.ndarray, np.ndarray]:
    """The numbers of all pairs of these runs, one run after another, and how many each run has."""
    import numpy as np

    numbers = np.frombuffer(b"".join(configs[run_id] for run_id in known), dtype=TYPE_OF_NUMBERS)
    return numbers, np.array([len(configs[run_id]) // numbers.itemsize for run_id in known])


def _tables(
    pairs: Sequence[tuple[int, str, str]], mine: Mapping[str, Any], largest: int
) -> tuple[np.ndarray, np.ndarray]:
    """For each number of a pair: whether it is one of mine, and whether its key is one of mine."""
    import numpy as np

    own = dict(_pairs(mine))
    size = 1 + max([largest, *(number for number, _, _ in pairs)])
    is_mine, has_my_key = np.zeros(size, bool), np.zeros(size, bool)
    for number, key, value in pairs:
        if key in own:
            has_my_key[number] = True
            is_mine[number] = own[key] == value
    return is_mine, has_my_key


def _sums(flags: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """How many flags are set in each of consecutive parts of these lengths, none of which is 0."""
    import numpy as np

    starts = np.cumsum(lengths) - lengths
    sums: np.ndarray = np.add.reduceat(flags.view(np.uint8), starts, dtype=np.int32)
    return sums


def _numbers_of_configs(home: Home, ids: Sequence[str]) -> dict[str, bytes]:
    """Id -> the numbers of its pairs, of every run whose config can be read."""
    remembered = Remembered(home, "configs", lambda paths: None)
    marks = stamps([f"{home.layout.place(run_id)}/config.yaml" for run_id in ids])
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
    return configs


def _numbered(home: Home, runs: Sequence[tuple[str, str]], remembered: Remembered) -> dict[str, bytes]:
    """Read the configs of some runs (id, stamp), number their pairs, and note both to be remembered."""
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
    """(key, value as text) of everything that is set; equal numbers have one spelling."""
    return [(key, _spelled(value)) for key, value in config.items() if value is not None]


def _spelled(value: Any) -> str:
    return _text(value) if isinstance(value, list | dict) else _text_of_scalar(value)


def _text(value: Any) -> str:
    return json.dumps(int(value) if isinstance(value, float) and value.is_integer() else value, sort_keys=True)


_text_of_scalar = lru_cache(10_000, typed=True)(_text)  # the configs of a home have few different values
