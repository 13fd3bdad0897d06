"""Calls of a trainer's own functions of the config: what they raise, or return by mistake, is named as theirs."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from plat.errors import PluginError
from plat.trainer.api import TrainerSpec
from plat.trainer.resources import Resources
from plat.user_code import definition_of, user_code


def checked_call(spec: TrainerSpec, name: str) -> Callable[[Any], Any]:
    """The function `validate`, `fingerprint`, `prepare`, `resources` or `idle_keys` of a trainer, checked.

    It gives what the trainer's function gives, and None for a `prepare` that the trainer does not have. PluginError,
    at the file and line of the trainer's code, when that raises something else than a PlatError or returns another
    type than `plat.trainer.api.TrainerSpec` says.
    """
    function = getattr(spec, name)
    holds, wanted = _RETURNS[name]

    def call(config: Any) -> Any:
        if function is None:
            return None
        with user_code(f"`{name}` of the trainer {spec.name!r} failed"):
            value = function(config)
        if not (isinstance(value, spec.config_type) if name == "validate" else holds(value)):
            raise PluginError(
                f"`{name}` of the trainer {spec.name!r} returned {value!r:.80}",
                where=definition_of(function),
                mend=f"return {wanted}",
            )
        return value

    return call


def _is_work(value: Any) -> bool:
    if value is None:
        return True
    return isinstance(value, tuple) and len(value) == 2 and all(isinstance(part, str) for part in value)


def _is_facts(value: Any) -> bool:
    try:
        json.dumps(value)
    except (TypeError, ValueError):
        return False
    return isinstance(value, dict)


def _is_reasons(value: Any) -> bool:
    return isinstance(value, Mapping) and all(isinstance(part, str) for pair in value.items() for part in pair)


def _is_resources(value: Any) -> bool:
    return isinstance(value, Resources) or (isinstance(value, Mapping) and all(isinstance(name, str) for name in value))


_RETURNS: dict[str, tuple[Callable[[Any], bool], str]] = {
    "validate": (lambda value: True, "a config of its config_type"),
    "fingerprint": (_is_facts, "a dict of facts that JSON can hold"),
    "prepare": (_is_work, "None, or (key, title)"),
    "resources": (_is_resources, 'a Resources, or a dict such as {"threads": 1, "gpus": 0}'),
    "idle_keys": (_is_reasons, 'a dict such as {"train.critic_lr": "it has no critic"}'),
}
