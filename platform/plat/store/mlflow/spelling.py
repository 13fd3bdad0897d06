"""How keys, values and times of a run are spelt in MLflow."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from plat.store.run_directory.types import is_time

KEY_LENGTH, PARAM_LENGTH, TAG_LENGTH = 250, 6000, 5000  # MLflow's limits


def clean_key(name: str) -> str:
    """A name MLflow accepts: letters, digits, `_ - . / :` and spaces, a plain relative path, at most 250 characters."""
    name = re.sub(r"[^\w\-./ :]", "_", name)[:KEY_LENGTH]
    name = "/".join(part for part in name.split("/") if part not in ("", ".", "..")) or "_"
    return "_" + name[1:] if name.startswith("..") else name


def text(value: Any) -> str:
    """A config value as MLflow shows it: text as it is, everything else as JSON."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)


def cut(value: str, length: int) -> str:
    return value if len(value) <= length else value[: length - 1] + "…"


def flatten(config: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Nested mappings as dotted keys; lists and empty mappings are values."""
    flat: dict[str, Any] = {}
    for key, value in config.items():
        if isinstance(value, Mapping) and value:
            flat.update(flatten(value, f"{prefix}{key}."))
        else:
            flat[f"{prefix}{key}"] = dict(value) if isinstance(value, Mapping) else value
    return flat


def millis(time: Any) -> int | None:
    """Seconds since 1970, or an ISO date, as whole milliseconds; None of what is no time that a date can name."""
    if isinstance(time, str):
        try:
            time = datetime.fromisoformat(time).timestamp()
        except (OSError, ValueError):
            return None
    return round(time * 1000) if is_time(time) else None
