"""Call the methods of a trainer so that errors and wrong return values name the trainer's code.

Every such call goes through here, except the training itself (`plat.runner.training`).
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from types import NoneType
from typing import Any, get_type_hints

from plat.errors import PluginError, SpecError
from plat.plugins.plugin_code import CODE, FILES, NamedFiles, PluginCode
from plat.trainer.annotations import fits
from plat.trainer.api import Trainer
from plat.trainer.finding import find_trainer
from plat.trainer.resources import Resources
from plat.user_code import definition_of, user_code


def checked_call(spec: Trainer, name: str) -> Callable[..., Any]:
    """Return the trainer's method `name` with checks.

    A call raises PluginError, at the file and line of the trainer's code, if that code raises anything but a PlatError
    or returns another type than `plat.trainer.api.Trainer` declares.
    """
    function = getattr(spec, name)
    hint, words = _returned(name)
    if name in ("validate", "less_memory"):
        hint = spec.config_type if name == "validate" else spec.config_type | None
        words = f"a {spec.config_type.__name__}" + " or None" * (name == "less_memory")

    def call(*arguments: Any) -> Any:
        title = f"`{name}` of the trainer {spec.name!r}"
        with user_code(f"{title} failed"):
            value = function(*arguments)
        if hint is not NoneType and not fits(value, hint):
            what = f"{title} returned {value!r:.80}"
            raise PluginError(what, where=definition_of(function), fix=f"return {words}")
        if name == "resources":
            try:
                Resources.of(value)
            except SpecError as error:
                what = f"{title} is wrong: {error.what}"
                raise PluginError(what, where=definition_of(function), fix=error.fix) from None
        return value

    return call


@functools.cache
def _returned(name: str) -> tuple[Any, str]:
    """Return the type that a method of `Trainer` returns, and its spelling."""
    method = getattr(Trainer, name)
    return get_type_hints(method)["return"], method.__annotations__["return"]


def iterations_of(trainer: str, config: Mapping[str, Any]) -> int | None:
    """Return the number of iterations of a run with this plain config, or None if its trainer does not state it."""
    iterations: int | None = checked_call(find_trainer(trainer), "iterations")(config)
    return iterations


Facts = list[tuple[str, str]]


def config_code(spec: Trainer, config: Any) -> tuple[Facts, Facts]:
    """Return [(FILES, CODE + digest)] for the identity of a run whose config names source files, else [].

    The second list is the same by the rules of plat 0.4 (`NamedFiles`).
    """
    files = checked_call(spec, "source_files")(config)
    now, before = ([(FILES, CODE + PluginCode(each).digest)] if each else [] for each in (files, _earlier(files)))
    return now, before


def source_code(spec: Trainer, config: Any) -> PluginCode:
    """Return the code that a config names."""
    files = checked_call(spec, "source_files")(config)
    if isinstance(files, NamedFiles):
        return PluginCode(files, earlier=files.earlier, packages=files.packages, first=files.first)
    return PluginCode(files, earlier=files)


def _earlier(files: Mapping[str, str]) -> Mapping[str, str]:
    return files.earlier if isinstance(files, NamedFiles) else files
