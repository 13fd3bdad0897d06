"""Find dispatchers by the name that `--on` takes: plug-ins of the group `plat.dispatchers`, imported when used."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import inspect
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from plat.dispatch.dispatcher import Dispatcher
from plat.dispatch.dispatcher_spec import DispatcherSpec, Setting
from plat.errors import PluginError, SpecError
from plat.plugins.loading import load_plugin, published
from plat.suggest import suggest
from plat.user_code import definition_of, position_of, user_code

GROUP = "plat.dispatchers"
LOCAL = "local"
PARAMETERS = {"open_dispatcher": ("setting",)} | {  # of the functions of a DispatcherSpec
    field.name: tuple(inspect.signature(field.default).parameters)
    for field in dataclasses.fields(DispatcherSpec)
    if callable(field.default)
}
METHODS = {  # of a Dispatcher, without `self`
    name: tuple(inspect.signature(function).parameters)[1:]
    for name, function in vars(Dispatcher).items()
    if inspect.isfunction(function) and not name.startswith("_")
}
ATTRIBUTES = ("slots", "stopping", "notices", "farewell", "detachable", "jobs")


def check_name(name: str) -> str:
    """Return the name; raise SpecError if no dispatcher has it."""
    if name not in published(GROUP):
        raise SpecError(f"unknown dispatcher {name!r}", where="--on", fix=suggest(name, published(GROUP), "one of"))
    return name


def names() -> list[str]:
    """Return the names of all published dispatchers, sorted; none is imported."""
    return list(published(GROUP))


def find_dispatcher(name: str) -> DispatcherSpec:
    """Return the published dispatcher of this name.

    Raises SpecError if there is none, and PluginError if it cannot be imported, or if a function is missing or takes
    other arguments. The functions of another package's dispatcher raise PluginError in place of unexpected errors.
    """
    spec = load_plugin(GROUP, check_name(name))
    value = published(GROUP)[name].value
    if not isinstance(spec, DispatcherSpec):
        raise PluginError(
            f"the dispatcher {name!r} is a {type(spec).__name__}, not a DispatcherSpec",
            where=position_of(value),
            fix="write SPEC = DispatcherSpec(open_dispatcher), from plat.dispatch.dispatcher_spec",
        )
    _check_functions(f"the DispatcherSpec of {name!r}", spec, PARAMETERS, position_of(value))
    if _is_ours(name):
        return spec
    functions: dict[str, Any] = {title: _guarded(name, title, getattr(spec, title)) for title in PARAMETERS}
    return dataclasses.replace(spec, **functions)


def _is_ours(name: str) -> bool:
    return published(GROUP)[name].value.startswith("plat.")


def _guarded(name: str, title: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """Return the function of a plug-in so that an unexpected error becomes a PluginError with the plug-in's line."""

    @functools.wraps(function)
    def call(*arguments: Any, **options: Any) -> Any:
        with user_code(f"{title} of the dispatcher {name!r} failed"):
            return function(*arguments, **options)

    return call


def located(name: str, cluster: Sequence[str], files: Sequence[Path]) -> tuple[str, ...]:
    """Return a dispatcher's settings with names of files replaced by paths. SpecError if a file is not found."""
    return tuple(find_dispatcher(name).located(cluster, files))


def open_dispatcher(name: str, setting: Setting) -> Dispatcher:
    """Open the dispatcher of this name; SpecError or SchedulerError if it cannot be used here.

    Raises PluginError if opening it fails, or the opened object lacks a method or attribute of `Dispatcher`.
    """
    spec = find_dispatcher(name)
    dispatcher = spec.open_dispatcher(setting)
    title = f"the dispatcher {name!r} ({type(dispatcher).__name__})"
    where = definition_of(spec.open_dispatcher) or position_of(published(GROUP)[name].value)
    missing = [attribute for attribute in ATTRIBUTES if not hasattr(dispatcher, attribute)]
    if missing:
        raise _wrong(title, f"it has no {', '.join(missing)}", where, "Dispatcher")
    _check_functions(title, dispatcher, METHODS, where)
    for method in () if _is_ours(name) else METHODS:
        with contextlib.suppress(AttributeError):  # a class with __slots__ keeps its methods
            setattr(dispatcher, method, _guarded(name, method, getattr(dispatcher, method)))
    return dispatcher


def _check_functions(title: str, owner: object, functions: dict[str, tuple[str, ...]], where: str) -> None:
    for name, parameters in functions.items():
        function = getattr(owner, name, None)
        kind = type(owner).__name__ if isinstance(owner, DispatcherSpec) else "Dispatcher"
        if not callable(function):
            raise _wrong(title, f"it has no function {name}({', '.join(parameters)})", where, kind)
        if not _takes(function, parameters):
            written = f"{name}{inspect.signature(function)}"
            expected = f"{name}({', '.join(parameters)})"
            raise _wrong(title, f"{written} cannot be called as {expected}", definition_of(function) or where, kind)


def _takes(function: Callable[..., Any], parameters: tuple[str, ...]) -> bool:
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):  # Python cannot tell, for example of a function written in C
        return True
    try:
        signature.bind(*parameters)
    except TypeError:
        return False
    return True


def _wrong(title: str, what: str, where: str, kind: str) -> PluginError:
    module = "dispatcher_spec" if kind == "DispatcherSpec" else "dispatcher"
    return PluginError(
        f"{title} is wrong: {what}", where=where, fix=f"correct it; plat.dispatch.{module}.{kind} explains each part"
    )
