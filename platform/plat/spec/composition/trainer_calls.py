"""Call the functions of a TrainerSpec so that errors and wrong return values name the trainer's code.

Every such call goes through here, except the training itself (`plat.runner.training`).
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from typing import Any

from plat.errors import PluginError, SpecError
from plat.plugins.plugin_code import CODE, FILES, NamedFiles, PluginCode
from plat.trainer.api import Need, TrainerSpec
from plat.trainer.finding import find_trainer
from plat.trainer.resources import Resources
from plat.user_code import definition_of, user_code


def checked_call(spec: TrainerSpec, name: str) -> Callable[..., Any]:
    """Return the trainer's function in the field `name` with checks, or a function that returns None if it has none.

    A call raises PluginError, at the file and line of the trainer's code, if that code raises anything but a PlatError
    or returns another type than `plat.trainer.api.TrainerSpec` declares.
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
    """Return the value that a trainer's function returned. Raises PluginError, at that function, if it is invalid.

    name  the field of the function, or EVALUATION for the result of the function that `load_evaluate` returns
    """
    if name in _OF_ITS_CONFIG:
        wanted = "a config of its config_type" + (", or None" if name == "less_memory" else "")
        is_right = isinstance(value, spec.config_type) or (name == "less_memory" and value is None)
    else:
        holds, wanted = _RETURNS[name]
        is_right = holds(value)
    if not is_right:
        what = f"`{name}` of the trainer {spec.name!r} returned {value!r:.80}"
        raise PluginError(what, where=definition_of(function), fix=f"return {wanted}")
    if name == "resources":
        try:
            Resources.of(value)
        except SpecError as error:
            what = f"`resources` of the trainer {spec.name!r} is wrong: {error.what}"
            raise PluginError(what, where=definition_of(function), fix=error.fix) from None
    return value


def iterations_of(trainer: str, config: Mapping[str, Any]) -> int | None:
    """Return the number of iterations of a run with this plain config, or None if its trainer does not state it."""
    iterations: int | None = checked_call(find_trainer(trainer), "iterations")(config)
    return iterations


def headline_of(spec: TrainerSpec, config: Mapping[str, Any]) -> str:
    """Return the name of the metric that a run with this plain config shows as success."""
    return str(checked_call(spec, "headline")(config)) if callable(spec.headline) else spec.headline


Facts = list[tuple[str, str]]


def config_code(spec: TrainerSpec, config: Any) -> tuple[Facts, Facts]:
    """Return [(FILES, CODE + digest)] for the identity of a run whose config names source files, else [].

    The second list is the same by the rules of plat 0.4 (`NamedFiles`).
    """
    files = checked_call(spec, "source_files")(config)
    now, before = ([(FILES, CODE + PluginCode(each).digest)] if each else [] for each in (files, _earlier(files)))
    return now, before


def source_code(spec: TrainerSpec, config: Any) -> PluginCode:
    """Return the code that a config names."""
    files = checked_call(spec, "source_files")(config)
    if isinstance(files, NamedFiles):
        return PluginCode(files, earlier=files.earlier, packages=files.packages, first=files.first)
    return PluginCode(files, earlier=files)


def _earlier(files: Mapping[str, str]) -> Mapping[str, str]:
    return files.earlier if isinstance(files, NamedFiles) else files


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


def _is_needs(value: Any) -> bool:
    return isinstance(value, list | tuple) and all(isinstance(need, Need) for need in value)


def _is_reasons(value: Any) -> bool:
    return isinstance(value, Mapping) and all(isinstance(part, str) for pair in value.items() for part in pair)


def _is_resources(value: Any) -> bool:
    return isinstance(value, Resources) or (isinstance(value, Mapping) and all(isinstance(name, str) for name in value))


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _is_size(value: Any) -> bool:
    return _is_count(value) or (isinstance(value, float) and math.isfinite(value) and value >= 0)


def _is_texts(value: Any) -> bool:
    return isinstance(value, list | tuple) and all(isinstance(line, str) for line in value)


EVALUATION = "load_evaluate()"
_OF_ITS_CONFIG = ("validate", "less_memory")


_FUNCTION = (callable, "a function")
_RETURNS: dict[str, tuple[Callable[[Any], bool], str]] = {
    "fingerprint": (_is_facts, "a dict of facts that JSON can hold"),
    "prepare": (_is_work, "None, or (key, title)"),
    "resources": (_is_resources, 'a Resources, or a dict such as {"threads": 1, "gpus": 0} '),
    "source_files": (_is_reasons, "a dict of file names and hashes"),
    "headline": (lambda value: isinstance(value, str) and bool(value), "the name of a metric"),
    "idle_keys": (_is_reasons, 'a dict such as {"train.critic_lr": "it has no critic"}'),
    "iterations": (lambda value: value is None or _is_count(value), "a whole number >= 0, or None"),
    "disk_bytes": (_is_size, "a number of bytes >= 0"),
    "check_machine": (lambda value: True, "None"),
    "doubts": (_is_texts, "a list of texts"),
    "needs": (_is_needs, "a list of plat.trainer.api.Need"),
    **dict.fromkeys(("load", "load_prepare", "load_evaluate", "load_check", "load_plan_note"), _FUNCTION),
    EVALUATION: (_is_facts, "a dict of results that JSON can hold"),
}
