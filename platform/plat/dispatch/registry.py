"""Find dispatchers by the name that `--on` takes: plug-ins of the group `plat.dispatchers`, imported when used."""

from __future__ import annotations

import functools
import inspect
import types
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, cast

from plat.dispatch.dispatcher import Dispatcher
from plat.dispatch.setting import Setting
from plat.errors import PluginError, SpecError
from plat.plugins.loading import load_plugin, published
from plat.suggest import suggest
from plat.user_code import definition_of, position_of, user_code

GROUP = "plat.dispatchers"
LOCAL = "local"
ATTRIBUTES = ("slots", "stopping", "notices", "jobs")


def check_name(name: str) -> str:
    """Return the name; raise SpecError if no dispatcher has it."""
    if name not in published(GROUP):
        raise SpecError(f"unknown dispatcher {name!r}", where="--on", fix=suggest(name, published(GROUP), "one of"))
    return name


def names() -> list[str]:
    """Return the names of all published dispatchers, sorted; none is imported."""
    return list(published(GROUP))


def find_dispatcher(name: str) -> type[Dispatcher]:
    """Return the published dispatcher of this name.

    Raises SpecError if there is none, and PluginError if it cannot be imported, or if a method is missing or takes
    other arguments. The methods of another package's dispatcher raise PluginError in place of unexpected errors.
    """
    loaded = load_plugin(GROUP, check_name(name))
    where = position_of(published(GROUP)[name].value)
    title = f"the dispatcher {name!r}"
    if not (isinstance(loaded, type) and issubclass(loaded, Dispatcher)):
        kind = "class" if isinstance(loaded, type) else type(loaded).__name__
        raise PluginError(
            f"{title} is a {kind} that is no subclass of Dispatcher",
            where=where,
            fix="publish a subclass of plat.dispatch.dispatcher.Dispatcher",
        )
    if published(GROUP)[name].value.startswith("plat."):
        return loaded
    _check_methods(f"{title} ({loaded.__name__})", loaded, where)
    return _guarded(loaded, title)


def located(name: str, cluster: Sequence[str], files: Sequence[Path]) -> tuple[str, ...]:
    """Return a dispatcher's settings with names of files replaced by paths. SpecError if a file is not found."""
    return tuple(find_dispatcher(name).located(cluster, files))


def open_dispatcher(name: str, setting: Setting) -> Dispatcher:
    """Open the dispatcher of this name; SpecError or SchedulerError if it cannot be used here.

    Raises PluginError if opening it fails, or the opened object lacks an attribute of `Dispatcher`.
    """
    kind = find_dispatcher(name)
    dispatcher = kind.open(setting)
    missing = [attribute for attribute in ATTRIBUTES if not hasattr(dispatcher, attribute)]
    if missing:
        title = f"the dispatcher {name!r} ({type(dispatcher).__name__})"
        fix = "call super().__init__(setting) in its __init__"
        where = definition_of(kind.__init__) or position_of(published(GROUP)[name].value)
        raise PluginError(f"{title} is wrong: it has no {', '.join(missing)}", where=where, fix=fix)
    return dispatcher


def _functions(kind: type) -> dict[str, Any]:
    """Return the public functions of `Dispatcher`, and `__init__`, as this class has them, bound to nothing."""
    names = [name for name in vars(Dispatcher) if not name.startswith("_")]
    found = {name: inspect.getattr_static(kind, name) for name in [*names, "__init__"]}
    return {name: one for name, one in found.items() if callable(getattr(Dispatcher, name))}


def _check_methods(title: str, kind: type[Dispatcher], where: str) -> None:
    """Raise PluginError for the first method that is missing, or cannot be called as that of `Dispatcher`."""
    fix = "correct it; plat.dispatch.dispatcher.Dispatcher explains each method"
    for name, function in _functions(kind).items():
        if name == "__init__":
            continue
        parameters = tuple(inspect.signature(getattr(Dispatcher, name)).parameters)
        expected = f"{name}({', '.join(one for one in parameters if one != 'self')})"
        if name in kind.__abstractmethods__ or not callable(getattr(kind, name)):
            raise PluginError(f"{title} is wrong: it has no method {expected}", where=where, fix=fix)
        bound = getattr(kind, name)
        if not _takes(bound, parameters):
            written = f"{name}{inspect.signature(bound)}".replace("(self, ", "(").replace("(self)", "()")
            place = definition_of(getattr(function, "__func__", function)) or where
            raise PluginError(f"{title} is wrong: {written} cannot be called as {expected}", where=place, fix=fix)


def _takes(function: Callable[..., Any], parameters: tuple[str, ...]) -> bool:
    try:
        inspect.signature(function).bind(*parameters)
    except ValueError:  # Python cannot tell the signature, for example of a function written in C
        return True
    except TypeError:
        return False
    return True


@functools.lru_cache(maxsize=64)
def _guarded(kind: type[Dispatcher], title: str) -> type[Dispatcher]:
    """Return a subclass whose methods turn an unexpected error into a PluginError with the plug-in's line."""

    def guard(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        what = f"{title} failed" if name == "__init__" else f"{name} of {title} failed"

        @functools.wraps(function)
        def call(*arguments: Any, **options: Any) -> Any:
            with user_code(what):
                return function(*arguments, **options)

        return call

    methods: dict[str, Any] = {"__module__": kind.__module__, "__qualname__": kind.__qualname__}
    for name, function in _functions(kind).items():
        if isinstance(function, (classmethod, staticmethod)):
            methods[name] = type(function)(guard(name, function.__func__))
        else:
            methods[name] = guard(name, function)
    return cast(
        "type[Dispatcher]", types.new_class(kind.__name__, (kind,), exec_body=lambda space: space.update(methods))
    )
