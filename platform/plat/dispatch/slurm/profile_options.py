"""The options of a cluster profile and what values they take. Every option is explained in TEMPLATE."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from plat.errors import SpecError
from plat.suggest import mend

_HERE = Path(__file__).resolve()
# The profiles that come with plat: in the package where a wheel was installed, else at the top of the checkout.
OURS = packaged if (packaged := _HERE.with_name("profiles")).is_dir() else _HERE.parents[4] / "slurm"
TEMPLATE = OURS / "template.yaml"
_TIME = re.compile(r"(?:(\d+)-)?(\d+):(\d\d)(?::(\d\d))?")
_MEMORY = re.compile(r"(\d+(?:\.\d+)?)\s*([MGT])i?B?", re.IGNORECASE)
_UNITS = {"M": 1, "G": 1024, "T": 1024**2}


def checked(key: str, value: Any) -> Any:
    """The value of an option in the unit that `Profile` keeps; SpecError, without a place, if it is wrong."""
    if key not in OPTIONS:
        raise SpecError(f"unknown option {key!r} of a cluster profile", mend=mend(key, OPTIONS, "options"))
    return OPTIONS[key](key, value)


def _wrong(key: str, value: Any, wanted: str) -> SpecError:
    return SpecError(f"{key} must be {wanted}, not {value!r}", mend=f"{TEMPLATE} explains every option")


def _text(key: str, value: Any) -> str:
    if isinstance(value, str | int) and not isinstance(value, bool) and "\n" not in str(value):
        return str(value)
    raise _wrong(key, value, "a text in one line")


def _texts(key: str, value: Any) -> tuple[str, ...]:
    if isinstance(value, list) and all(isinstance(item, str) for item in value):
        return tuple(value)
    raise _wrong(key, value, "a list of texts")


def _count(key: str, value: Any) -> int:
    if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
        return value
    raise _wrong(key, value, "a whole number of at least 0")


def _seconds(key: str, value: Any) -> float:
    if isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < 1e6:
        return float(value)
    raise _wrong(key, value, "a number of seconds")


def _minutes(key: str, value: Any) -> int:
    """Minutes, or a text as SLURM writes it: "2:00:00", "1-12:00:00"; "h:mm" without seconds."""
    if isinstance(value, str) and (parts := _TIME.fullmatch(value.strip())):
        days, hours, minutes, seconds = (int(part or 0) for part in parts.groups())
        return days * 1440 + hours * 60 + minutes + (1 if seconds else 0)
    try:
        return _count(key, value)
    except SpecError:
        raise _wrong(key, value, 'minutes, or a text such as "2:00:00" or "1-12:00:00"') from None


def _memory(key: str, value: Any) -> int:
    """MiB, or a text with a unit: "16G"."""
    if isinstance(value, str) and (parts := _MEMORY.fullmatch(value.strip())):
        return round(float(parts[1]) * _UNITS[parts[2].upper()])
    try:
        return _count(key, value)
    except SpecError:
        raise _wrong(key, value, 'MiB, or a text such as "16G"') from None


def _named_texts(key: str, value: Any) -> dict[str, str]:
    if isinstance(value, dict) and all(isinstance(item, str | int | float) for item in value.values()):
        return {name: str(item).lower() if isinstance(item, bool) else str(item) for name, item in value.items()}
    raise _wrong(key, value, "a mapping of names to texts")


def _models(key: str, value: Any) -> dict[str, dict[str, Any]]:
    if not isinstance(value, dict) or not all(isinstance(item, dict) for item in value.values()):
        raise _wrong(key, value, "a mapping of models to the options that are different for them")
    for name, options in value.items():
        for option in options:
            if option not in OF_MODELS:
                raise SpecError(
                    f"unknown option {option!r} of the model {name!r}", mend=mend(option, OF_MODELS, "one of")
                )
    return {
        name: {option: checked(option, item) for option, item in options.items()} for name, options in value.items()
    }


OF_MODELS = ("time", "memory", "threads", "gpus", "nodes", "partition")  # what an entry of `models` may change
OPTIONS = {
    **dict.fromkeys(("partition", "account", "qos", "constraint", "gres", "exclude", "python"), _text),
    **dict.fromkeys(("threads", "gpus", "nodes", "max_parallel", "runs_per_task", "signal_before"), _count),
    **dict.fromkeys(("refresh", "accept_within", "command_timeout"), _seconds),
    "runs_at_once": lambda key, value: max(1, _count(key, value)),
    "time": _minutes,
    "memory": _memory,
    "modules": _texts,
    "setup": _texts,
    "environment": _named_texts,
    "options": _named_texts,
    "models": _models,
}
