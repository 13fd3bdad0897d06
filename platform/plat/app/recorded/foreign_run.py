"""A run that another tool recorded, as every reader of a source gives it."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from plat.characters import is_too_large
from plat.spec.reading.yaml_scalar import scalar
from plat.trainer.script.readers.objects import Logged, same

History = dict[int, dict[str, float]]


@dataclass(frozen=True)
class ForeignRun:
    """One run of a source. A reader returns runs in the order of their start, or of their names.

    name      its name or id in the source
    values    dotted key -> str, int, float, bool or None: its config
    history   step -> metric -> number
    place     its file or address, for messages
    finished  False for a run that crashed or was still running
    replaced  number of values that a later one of the same metric and step has replaced
    spelled   key -> the text of a value that was read from a text, such as 3.10
    """

    name: str
    values: dict[str, Any]
    history: History
    place: str
    finished: bool = True
    replaced: int = 0
    spelled: Mapping[str, str] = field(default_factory=dict)


Read = tuple[list[ForeignRun], list[str]]  # what a reader returns: runs, and sentences on what was left out


def flat_values(config: Mapping[Any, Any], prefix: str = "") -> dict[str, Any]:
    """Return dotted key -> value of a nested config; a list or an object becomes text."""
    found: dict[str, Any] = {}
    for name, value in config.items():
        found |= flat_values(value, f"{prefix}{name}.") if isinstance(value, Mapping) else {f"{prefix}{name}": value}
    return {name: _value(value) for name, value in found.items()} if not prefix else found


def text_values(texts: Mapping[str, str]) -> dict[str, Any]:
    """Return the values that texts mean: `0.1` is a number, `true` a truth value, `adam` a text."""
    return {name: _value(_meaning(text)) for name, text in texts.items()}


def with_spellings(runs: Sequence[ForeignRun], leave: str) -> tuple[list[ForeignRun], dict[str, list[str]]]:
    """Return the runs, with texts as values of each key in which one number has two spellings, such as 3.1 and 3.10 or
    7 and 007, which may be versions or names; and these keys with two such spellings. 1e-3 and .001 are one value.

    leave  a key that is left as it is: the seed
    """
    spellings: dict[tuple[str, str, bool], set[str]] = {}
    for run in runs:
        for key, text in run.spelled.items():
            if PLAIN.fullmatch(text):
                spellings.setdefault((key, repr(run.values.get(key)), "." in text), set()).add(text)
    keys = {key: sorted(texts)[:2] for (key, *_), texts in spellings.items() if len(texts) > 1 and key != leave}
    found = []
    for run in runs:
        texts = {key: text for key, text in run.spelled.items() if key in keys}
        found.append(replace(run, values={**run.values, **texts}))
    return found, keys


PLAIN = re.compile(r"\d+|\d*\.\d*")


def merged(found: Iterable[Logged]) -> tuple[History, int]:
    """Return step -> metrics of what was logged, and how many values a later one of the same step has replaced."""
    history: History = {}
    replaced = 0
    for logged in found:
        if logged.metrics:
            before = history.setdefault(logged.step, {})
            replaced += sum(name in before and not same(before[name], value) for name, value in logged.metrics.items())
            before.update(logged.metrics)
    return history, replaced


def _meaning(text: str) -> Any:
    try:
        return scalar(text) if text else ""
    except ValueError:  # a number of thousands of digits
        return text


def _value(value: Any) -> Any:
    """Return a value that an experiment file can hold: a number without a place there becomes text."""
    if isinstance(value, bool) or value is None or isinstance(value, str):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, int):
        return str(value) if is_too_large(value) else value
    return json.dumps(value, default=str)
