"""Make builders and checks of functions of results. Options that several share are fields of a frozen dataclass.

    @takes(Comparison)
    def build(results: Results, compared: Comparison, *, paper: str | None = None) -> list[Table]: ...

    build(frames, experiment, pair="filter", paper="table4")

Signature and docstring of the result list the shared options, so they are checked and explained like own options.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import MISSING, fields, is_dataclass
from functools import wraps
from typing import Any, TypeVar, get_type_hints

from plat_analysis.data.results import Results
from plat_analysis.own_axes import own_axes

Artifact = TypeVar("Artifact")


def takes(
    options: type[Any] | None = None,
    before: Callable[..., object] | None = None,
    reads: Mapping[str, Callable[[Any], object]] | None = None,
) -> Callable[[Callable[..., Artifact]], Callable[..., Artifact]]:
    """Return a decorator that turns a function of (results, options, **rest) into a builder or check.

    The builder or check is called with (frames, experiment, **arguments).

    options  a dataclass. The arguments named like its fields make one instance, the function's second argument; the
             function gets the rest by name. A field without a default is required. The class's method
             `beforehand(results)` is the default of `before`
    before   refuses impossible arguments before anything is trained: called with the wanted runs (`Results.planned`)
             and the arguments of the entry; raises SpecError
    reads    argument -> function that reads it, and raises SpecError if it cannot; called before anything is trained
    """
    shared = option_parameters(options) if options else {}

    def chosen(given: dict[str, Any]) -> list[Any]:
        """Take the options out of the arguments."""
        return [options(**{name: given.pop(name) for name in shared if name in given})] if options else []

    def decorate(function: Callable[..., Artifact]) -> Callable[..., Artifact]:
        @wraps(function)
        def call(frames: Any, experiment: Any, **given: Any) -> Artifact:
            given |= own_axes(experiment, parameters, given)
            return function(Results.of(frames, experiment), *chosen(given), **given)

        def beforehand(results: Results, **given: Any) -> None:
            given |= own_axes(results.experiment, parameters, given)
            before(results, **given) if before else chosen(given)[0].beforehand(results)

        if before is not None or hasattr(options, "beforehand"):
            call.beforehand = beforehand  # type: ignore[attr-defined]
        call.reads = reads or {}  # type: ignore[attr-defined]
        signature = inspect.signature(function)
        own = list(signature.parameters.values())[2 if options else 1 :]
        fixed = [inspect.Parameter(name, inspect.Parameter.POSITIONAL_OR_KEYWORD) for name in ("frames", "experiment")]
        named = sorted([*shared.values(), *own], key=lambda parameter: parameter.default is not parameter.empty)
        parameters = frozenset(parameter.name for parameter in named)
        call.lays_out = parameters  # type: ignore[attr-defined]
        call.__signature__ = signature.replace(parameters=[*fixed, *named])  # type: ignore[attr-defined]
        call.__doc__ = "\n".join([inspect.getdoc(function) or "", *_explanations(options)])
        return call

    return decorate


def option_parameters(options: type[Any]) -> dict[str, inspect.Parameter]:
    """Return name -> keyword parameter, one for each field of a dataclass of options."""
    hints = get_type_hints(options)
    return {
        field.name: inspect.Parameter(
            field.name,
            inspect.Parameter.KEYWORD_ONLY,
            default=inspect.Parameter.empty if field.default is MISSING else field.default,
            annotation=hints[field.name],
        )
        for field in fields(options)
    }


def _explanations(options: type[Any] | None) -> list[str]:
    """Return the lines on the fields: each class docstring after its first paragraph, base classes first."""
    classes = [kind for kind in reversed(options.__mro__) if is_dataclass(kind)] if options else []
    return [inspect.cleandoc(kind.__doc__ or "").partition("\n\n")[2] for kind in classes]
