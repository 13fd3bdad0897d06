"""The names of metrics that any trainer may log, and that a report knows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

SUCCESS = "success"  # alias of any trainer's headline metric: share of the validation instances solved, 0 to 1
VAL_SUCCESS = "val/success"  # the headline metric of a trainer that names no other


def own_metric(config: Mapping[str, Any]) -> tuple[str, str]:
    """Return `script.metric` and `script.goal` of a plain config; ("", "") where the file names no metric."""
    script = config.get("script")
    name = script.get("metric") if isinstance(script, Mapping) else None
    return (str(name), str(script["goal"])) if isinstance(script, Mapping) and name else ("", "")
