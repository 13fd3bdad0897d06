"""Convert keys, values and times of a run to the forms that MLflow accepts."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from hashlib import sha256
from typing import Any

from plat.store.run_directory.types import is_time

REFUSED = r"[^\w\-./ :]"  # characters in names of metrics
KEY_LENGTH, PARAM_LENGTH, TAG_LENGTH = 250, 6000, 5000  # MLflow's limits


def clean_key(name: str) -> str:
    """Return a name that MLflow accepts: a plain relative path of at most 250 characters.

    Replaces by `_` all characters except letters, digits, `_ - . / :` and spaces."""
    name = re.sub(REFUSED, "_", name)[:KEY_LENGTH]
    name = "/".join(part for part in name.split("/") if part not in ("", ".", "..")) or "_"
    return "_" + name[1:] if name.startswith("..") else name


def metric_key(name: str) -> str:
    """Return a metric's name as MLflow accepts it, one to one (`metric_name`): `pass@1` is stored as `pass_x40_1`.

    The end of a name that is still too long becomes a hash, from which nothing is read back.
    """
    plain = re.sub(REFUSED, "_", name)[:KEY_LENGTH]
    refused = REFUSED if clean_key(plain) == plain else r"[^\w\- :]"  # also what makes `a//b` or `..`
    key = re.sub(rf"{refused}|_(?=x[0-9A-F]+(?:_|{refused}))", lambda found: f"_x{ord(found[0]):X}_", name)
    return key if len(key) <= KEY_LENGTH else f"{key[: KEY_LENGTH - 17]}_{sha256(name.encode()).hexdigest()[:16]}"


def metric_name(key: str) -> str:
    """Return the name of a stored metric; that of a store of plat 0.4 is the key itself."""
    return re.sub(r"_x([0-9A-F]{1,5}|10[0-9A-F]{4})_", lambda found: chr(int(found[1], 16)), key)


def text(value: Any) -> str:
    """Return a config value as text: strings unchanged, everything else as JSON."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)


def cut(value: str, length: int) -> str:
    return value if len(value) <= length else value[: length - 1] + "…"


def flatten(config: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Return nested mappings as one mapping with dotted keys; lists and empty mappings are values."""
    flat: dict[str, Any] = {}
    for key, value in config.items():
        if isinstance(value, Mapping) and value:
            flat.update(flatten(value, f"{prefix}{key}."))
        else:
            flat[f"{prefix}{key}"] = dict(value) if isinstance(value, Mapping) else value
    return flat


def millis(time: Any) -> int | None:
    """Convert seconds since 1970 to whole milliseconds; None if the value is not a valid time."""
    return round(time * 1000) if is_time(time) else None
