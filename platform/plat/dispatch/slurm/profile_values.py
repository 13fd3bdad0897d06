"""Check the values of a cluster profile: each function gets an option's name and its value, and returns what it means.

They raise SpecError without a place, which the reader of the profile adds.
"""

from __future__ import annotations

import dataclasses
import math
import re
from pathlib import Path
from typing import Any

from plat.dispatch.slurm.commands import minutes_of
from plat.errors import SpecError
from plat.suggest import suggest
from plat.words.usage import Rates

_HERE = Path(__file__).resolve()
# The profiles of plat: in the package if a wheel was installed, else at the top of the checkout.
OURS = packaged if (packaged := _HERE.with_name("profiles")).is_dir() else _HERE.parents[4] / "slurm"
TEMPLATE = OURS / "template.yaml"
_MEMORY = re.compile(r"(\d{1,9}(?:\.\d{1,9})?)\s*([KMGT])i?B?", re.IGNORECASE)
_UNITS = {"K": 1 / 1024, "M": 1, "G": 1024, "T": 1024**2}
IN_MIB = ("memory", "slurm_mem")  # the names of mem_gb whose numbers are MiB, as sbatch's
# Options of sbatch that plat sets.
OPTIONS_OF_PLAT = ("job-name", "array", "output", "error", "open-mode", "signal", "time", "requeue", "no-requeue")


def wrong(key: str, value: Any, wanted: str) -> SpecError:
    return SpecError(f"{key} must be {wanted}, not {value!r}", fix=f"{TEMPLATE} explains every option")


def text(key: str, value: Any) -> str:
    if isinstance(value, str | int) and not isinstance(value, bool) and "\n" not in str(value):
        return str(value)
    raise wrong(key, value, "a text in one line")


def texts(key: str, value: Any) -> tuple[str, ...]:
    if isinstance(value, list) and all(isinstance(item, str) for item in value):
        return tuple(value)
    raise wrong(key, value, "a list of texts")


def count(key: str, value: Any) -> int:
    if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
        return value
    raise wrong(key, value, "a whole number of at least 0")


def seconds(key: str, value: Any) -> float:
    if isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < 1e6:
        return float(value)
    raise wrong(key, value, "a number of seconds")


def positive_seconds(key: str, value: Any) -> float:
    """Return seconds; refuse 0, for a limit that nothing can keep."""
    if given := seconds(key, value):
        return given
    raise wrong(key, value, "a number of seconds above 0")


def time_limit(key: str, value: Any) -> int:
    """Return minutes, from a number or a text as SLURM reads it: "30:00" is half an hour."""
    if isinstance(value, str) and (minutes := minutes_of(value)):
        return minutes
    try:
        return count(key, value)
    except SpecError:
        raise wrong(key, value, 'minutes, or a text such as "30:00" (mm:ss), "2:00:00" or "1-12:00:00"') from None


def memory(key: str, value: Any) -> float:
    """Return GB, from a number or a text with a unit: "16G". A number of a key in IN_MIB is in MiB."""
    if isinstance(value, str) and (parts := _MEMORY.fullmatch(value.strip())):
        return math.ceil(float(parts[1]) * _UNITS[parts[2].upper()]) / 1024
    if isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < 1e9:
        return float(value) / (1024 if key in IN_MIB else 1)
    raise wrong(key, value, f'{"MiB" if key in IN_MIB else "GB"}, or a text such as "16G"')


def named_texts(key: str, value: Any) -> dict[str, str]:
    if not isinstance(value, dict) or not all(isinstance(item, str | int | float) for item in value.values()):
        raise wrong(key, value, "a mapping of names to texts")
    for name in value:
        if not re.fullmatch(r"[A-Za-z_][\w-]*" if key != "environment" else r"[A-Za-z_]\w*", name, re.ASCII):
            raise SpecError(
                f"{key}: {name!r} cannot be a name here", fix="use letters, digits and _ (- in options of sbatch)"
            )
    return {name: str(item).lower() if isinstance(item, bool) else str(item) for name, item in value.items()}


def cost(key: str, value: Any) -> Rates | None:
    """Return what the user pays, from a mapping of the names of `Rates`; None for an empty one.

    Raises SpecError for a name that is no rate, and a value that cannot be one.
    """
    names = [field.name for field in dataclasses.fields(Rates)]
    if not isinstance(value, dict):
        raise wrong(key, value, "a mapping such as {gpu_hour: 2.1, kwh: 0.3, currency: EUR}")
    for name, given in value.items():
        if name not in names:
            raise SpecError(f"{key}: unknown rate {name!r}", fix=suggest(str(name), names, "rates"))
        if name == "currency":
            text(f"{key}.currency", given)
        elif isinstance(given, bool) or not isinstance(given, int | float) or not 0 <= given < 1e9:
            raise wrong(f"{key}.{name}", given, "a number of at least 0")
    if not value:
        return None
    numbers = {name: float(given) for name, given in value.items() if name != "currency"}
    return Rates(currency=str(value.get("currency", "")), **numbers)


def additional(key: str, value: Any) -> dict[str, Any]:
    """Return the further options of sbatch, without those that are `false`; `true` is an option without a value.

    Raises SpecError for one that plat sets, or has a parameter for.
    """
    texts = named_texts(key, value)
    options = {name: value[name] is True or text for name, text in texts.items() if value[name] is not False}
    for name in texts:
        if (option := name.replace("_", "-")) in OPTIONS_OF_PLAT:
            fix = "write timeout_min: 90 in the profile" if option == "time" else "leave it out of the profile"
            raise SpecError(f"{key}: plat sets sbatch's option {name!r} itself", fix=fix)
    return options
