"""Calls of a trainer's own functions: what they raise, or return by mistake, is named as theirs.

Every call of a function of a TrainerSpec goes through here, but for the training itself (`plat.runner.training`).
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from typing import Any

from plat.errors import PluginError, SpecError
from plat.trainer.api import TrainerSpec, find_trainer
from plat.trainer.resources import Resources
from plat.user_code import definition_of, user_code


def checked_call(spec: TrainerSpec, name: str) -> Callable[..., Any]:
    """The function of a trainer in the field `name`, checked.

    It gives what the trainer's function gives, and None for a function that the trainer does not have. PluginError, at
    the file and line of the trainer's code, when that raises something else than a PlatError or returns another type
    than `plat.trainer.api.TrainerSpec` says.
    """
    function = getattr(spec, name)

    def call(*arguments: Any) -> Any:
        if function is None:
            return None
        with user_code(f"`{name}` of the trainer {spec.name!r} failed"):
            value = function(*arguments)
        return checked_value(spec, name, value, function)

    return call


def checked_value(spec: TrainerSpec, name: str, value: Any, function: Callable[..., Any]) -> Any:
    """What a function of a trainer returned; PluginError, at that function, when it is not what it should be.

    name  the field of the function, or EVALUATION for what `load_evaluate` gives
    """
    if name in _OF_ITS_CONFIG:
        wanted = "a config of its config_type" + (", or None" if name == "less_memory" else "")
        is_right = isinstance(value, spec.config_type) or (name == "less_memory" and value is None)
    else:
        holds, wanted = _RETURNS[name]
        is_right = holds(value)
    if not is_right:
        raise PluginError(
            f"`{name}` of the trainer {spec.name!r} returned {value!r:.80}",
            where=definition_of(function),
            mend=f"return {wanted}",
        )
    if name == "resources":
        _check_resources(spec, value, function)
    return value


def _check_resources(spec: TrainerSpec, value: Any, function: Callable[..., Any]) -> None:
    try:
        Resources.of(value)
    except SpecError as error:
        what = f"`resources` of the trainer {spec.name!r} is wrong: {error.what}"
        raise PluginError(what, where=definition_of(function), mend=error.mend) from None


def iterations_of(trainer: str, config: Mapping[str, Any]) -> int | None:
    """The iterations of a run with this plain config, as its trainer says; None when it does not say."""
    iterations: int | None = checked_call(find_trainer(trainer), "iterations")(config)
    return iterations


def _is_work(value: Any) -> bool:
    if value is None:
        return True
    return isinstance(value, tuple) and len(value) == 2 and all(isinstance(part, str) for part in value)


def _is_facts(value: Any) -> bool:
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except (TypeError, ValueError, RecursionError):
        return False
    return isinstance(value, dict)


def _is_reasons(value: Any) -> bool:
    return isinstance(value, Mapping) and all(isinstance(part, str) for pair in value.items() for part in pair)


def _is_resources(value: Any) -> bool:
    return isinstance(value, Resources) or (isinstance(value, Mapping) and all(isinstance(name, str) for name in value))


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _is_size(value: Any) -> bool:
    return _is_count(value) or (isinstance(value, float) and math.isfinite(value) and value >= 0)


EVALUATION = "load_evaluate()"
_OF_ITS_CONFIG = ("validate", "less_memory")
_FUNCTION = (callable, "a function")
_RETURNS: dict[str, tuple[Callable[[Any], bool], str]] = {
    "fingerprint": (_is_facts, "a dict of facts that JSON can hold"),
    "prepare": (_is_work, "None, or (key, title)"),
    "resources": (_is_resources, 'a Resources, or a dict such as {"threads": 1, "gpus": 0} '),
    "idle_keys": (_is_reasons, 'a dict such as {"train.critic_lr": "it has no critic"}'),
    "iterations": (lambda value: value is None or _is_count(value), "a whole number >= 0, or None"),
    "disk_bytes": (_is_size, "a number of bytes >= 0"),
    "check_machine": (lambda value: True, "None"),
    **dict.fromkeys(("load", "load_prepare", "load_evaluate", "load_check"), _FUNCTION),
    EVALUATION: (_is_facts, "a dict of results that JSON can hold"),
}
