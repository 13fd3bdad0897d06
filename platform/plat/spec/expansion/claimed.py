"""The metrics that the claims of an experiment file are about."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any


def claimed(claims: Iterable[Mapping[str, Any]]) -> list[str]:
    """Return the metrics that claims measure, each once."""
    measures = (claim.get(key) for claim in claims for key in ("measure", "measures", "metric"))
    found = (_named(measure) for measure in measures if measure is not None)
    return list(dict.fromkeys(name for names in found for name in names))


def _named(measure: Any) -> list[str]:
    if isinstance(measure, str):
        return [measure]
    if isinstance(measure, Mapping):
        inner = [measure["metric"]] if "metric" in measure else list(measure.values())
        return [name for one in inner for name in _named(one)]
    return [name for one in measure for name in _named(one)] if isinstance(measure, list) else []
