"""Detect changes of a done run in the store, with a digest in its tag `plat.digest`.

The importer writes the digest, the reader recomputes it. It covers the metrics except `time/` and `mem/` (two
executions of one run differ in them), the tables, and the tags in COVERED. Runs imported before plat 0.3 have none.

    <tags> <tables, or -> <all metrics together> <for each metric: its name, then its steps and values>

Each part is a CRC-32 in 8 hexadecimal digits. A long digest continues in the tags `plat.digest.2`, `plat.digest.3`, ...
It detects mistakes and flipped bits, not forgery.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any
from zlib import crc32

from plat.store.mlflow.backend import LARGEST
from plat.store.mlflow.run_record import NOT_COMPARED, TABLES, Point, RunRecord
from plat.store.mlflow.spelling import TAG_LENGTH

if TYPE_CHECKING:
    import numpy as np

    from plat.store.mlflow.backend import Series

TAG = "plat.digest"
COVERED = ("plat.id", "plat.outcome", "plat.axes", "plat.trainer", "plat.identity_scheme", "plat.summary.")
ENTRY = 16  # digits of one metric
SAME_NAME = "-" * 8  # values of metrics whose names have the same CRC-32: they are not checked


def digest_tags(record: RunRecord) -> dict[str, str]:
    """Return the tags with the digest of a record; {} if the run is not done or is damaged."""
    if not record.done or record.damage:
        return {}
    text = " ".join((_of_tags(record.tags), _of_tables(record.artifacts.get(TABLES)), *_of_points(record.points)))
    parts = [text[start : start + TAG_LENGTH] for start in range(0, len(text), TAG_LENGTH)]
    return {TAG if number == 1 else f"{TAG}.{number}": part for number, part in enumerate(parts, start=1)}


def is_changed_in_store(record: RunRecord, tags: Mapping[str, str]) -> bool:
    """Return True if a stored run with these `tags` that contradicts the record was changed in the store.

    It was changed if its plat id is not the record's, if its tags do not match their stored digest, or if the stored
    digest is the record's. Otherwise, and without a digest, the run was executed again: returns False."""
    if tags.get("plat.id") != record.id:  # it was changed in the store, and this import has restored it
        return True
    if TAG not in tags:
        return False
    stored = {tag: text for tag, text in tags.items() if is_digest(tag)}
    return bool(Digest(tags).problem_of_tags(tags)) or stored == digest_tags(record)


def is_digest(tag: str) -> bool:
    return tag == TAG or tag.startswith(f"{TAG}.")


class Digest:
    """The stored digest of a run, from its tags. Raises KeyError without the tag TAG.

    Each `problem_of_*` returns in words what differs from the digest, "" if nothing does.
    """

    def __init__(self, tags: Mapping[str, str]) -> None:
        text = tags[TAG]
        number = 2
        while (more := tags.get(f"{TAG}.{number}")) is not None:
            text, number = text + more, number + 1
        self._of_tags, self._of_tables, self._of_metrics, self._entries = [*text.split(" "), "", "", "", ""][:4]

    def problem_of_tags(self, tags: Mapping[str, str]) -> str:
        return "" if self._of_tags == _of_tags(tags) else "its tags differ from the imported ones"

    def problem_of_tables(self, data: bytes | None) -> str:
        return "" if self._of_tables == _of_tables(data) else "its tables differ from the imported ones"

    def problem_of_metrics(self, series: Series) -> str:
        if self._of_metrics == _of_series(series, series.values):
            return ""  # the usual case, and faster than comparing each metric
        starts = range(0, len(self._entries), ENTRY)
        expected = {self._entries[at : at + 8]: self._entries[at + 8 : at + ENTRY] for at in starts}
        values, start, found = _plain(series.values), 0, set()
        for key, count in zip(series.keys, series.counts, strict=True):
            end = start + count
            if name := _of_name(key):
                found.add(name)
                if expected.get(name) not in (_of_values(series.steps[start:end], values[start:end]), SAME_NAME):
                    return f"{key} is not what was imported"
            start = end
        return "metrics that were imported are missing" if expected.keys() - found else ""


def _of_series(series: Series, values: np.ndarray) -> str:
    """Return the digest of all metrics together."""
    parts, digest = _covered_parts(tuple(series.keys), tuple(series.counts))
    numbers: Any  # numpy's types do not declare that arrays are buffers
    for numbers in (series.steps, values):
        for start, end in parts:
            digest = crc32(numbers[start:end], digest)
    return f"{digest:08x}"


@lru_cache(1000)
def _covered_parts(keys: tuple[str, ...], counts: tuple[int, ...]) -> tuple[list[tuple[int, int]], int]:
    """Return the merged (start, end) ranges of covered values, and the digest of covered names and counts."""
    parts: list[tuple[int, int]] = []
    covered, start = [], 0
    for key, count in zip(keys, counts, strict=True):
        if _of_name(key):
            covered.append(f"{key} {count}")
            before = parts.pop()[0] if parts and parts[-1][1] == start else start
            parts.append((before, start + count))
        start += count
    return parts, crc32(chr(0).join(covered).encode(errors="replace"))


@lru_cache(10_000)
def _of_name(key: str) -> str:
    """Return the digest of a metric's name, "" if the metric is not covered."""
    return "" if key.startswith(NOT_COMPARED) else f"{crc32(key.encode(errors='replace')):08x}"


def _of_values(steps: Any, values: Any) -> str:
    """Return the digest of a metric's 64-bit steps and values, each an `array` or a numpy array."""
    return f"{crc32(values, crc32(steps)):08x}"


def _plain(values: np.ndarray) -> np.ndarray:
    """Return the values with one bit pattern for NaN and one for zero: SQLite drops the sign of zero."""
    import numpy as np

    plain: np.ndarray = values + 0.0
    plain[np.isnan(plain)] = np.nan
    return plain


def _of_points(points: Iterable[Point]) -> tuple[str, str]:
    """Return the digest of all metrics and the entries of each, as for a reader's series; does not import numpy."""
    by_key: dict[str, tuple[array[int], array[float]]] = {}
    for key, step, value, _ in points:  # in ascending order of steps
        steps, values = by_key.get(key) or by_key.setdefault(key, (array("q"), array("d")))
        steps.append(step)
        values.append(_read_back(value))
    covered = [(key, *by_key[key]) for key in sorted(by_key) if _of_name(key)]
    _, digest = _covered_parts(tuple(key for key, _, _ in covered), tuple(len(steps) for _, steps, _ in covered))
    for numbers in ([steps for _, steps, _ in covered], [values for _, _, values in covered]):
        for of_key in numbers:
            digest = crc32(of_key, digest)
    entries: dict[str, str] = {}
    for key, steps, values in covered:
        name = _of_name(key)
        entries[name] = SAME_NAME if name in entries else _of_values(steps, values)
    return f"{digest:08x}", "".join(name + digest for name, digest in entries.items())


def _read_back(value: float) -> float:
    """Return a value as a reader returns it after it was stored."""
    if value != value:
        return math.nan
    return math.copysign(math.inf, value) if abs(value) >= LARGEST else value + 0.0


def _of_tags(tags: Mapping[str, str]) -> str:
    covered, names = _covered(tuple(tags))
    return f"{crc32(chr(0).join([tags[key] for key in covered]).encode(errors='replace'), names):08x}"


@lru_cache(1000)
def _covered(keys: tuple[str, ...]) -> tuple[tuple[str, ...], int]:
    """Return the sorted tags that a digest covers and the digest of their names; most runs have the same."""
    covered = tuple(sorted(key for key in keys if key.startswith(COVERED)))
    return covered, crc32(chr(0).join(covered).encode(errors="replace"))


def _of_tables(data: bytes | None) -> str:
    return "-" if data is None else f"{crc32(data):08x}"
