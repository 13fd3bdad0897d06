"""Options that several builders and checks share: fields of a frozen dataclass, given one by one.

    @takes(Comparison)
    def build(frames, experiment, compared: Comparison, *, paper: str | None = None) -> list[Table]: ...

An entry of an experiment file names `rows` or `pair` beside `paper`, as if the builder had declared each of them. The
signature and the docstring that everybody else sees say the same, so shared options are checked, listed and explained
like a builder's own.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import fields, is_dataclass
from functools import wraps
from typing import Any, TypeVar, get_type_hints

Artifact = TypeVar("Artifact")


def takes(options: type[Any]) -> Callable[[Callable[..., Artifact]], Callable[..., Artifact]]:
    """Give a builder or check, as its third argument, an `options` made of the keyword arguments that are its fields.

    Every field needs a default. The options that have none, which only the function itself can declare, come first in
    the signature.
    """
    shared = option_parameters(options)

    def decorate(function: Callable[..., Artifact]) -> Callable[..., Artifact]:
        @wraps(function)
        def call(frames: Any, experiment: Any, **given: Any) -> Artifact:
            chosen = options(**{name: given.pop(name) for name in shared if name in given})
            return function(frames, experiment, chosen, **given)

        signature = inspect.signature(function)
        frames, experiment, _, *own = signature.parameters.values()
        named = sorted([*shared.values(), *own], key=lambda parameter: parameter.default is not parameter.empty)
        call.__signature__ = signature.replace(parameters=[frames, experiment, *named])  # type: ignore[attr-defined]
        call.__doc__ = "\n".join([inspect.getdoc(function) or "", *_explanations(options)])
        return call

    return decorate


def option_parameters(options: type[Any]) -> dict[str, inspect.Parameter]:
    """Name -> keyword parameter, of every field of a class of options."""
    hints = get_type_hints(options)
    return {
        field.name: inspect.Parameter(
            field.name, inspect.Parameter.KEYWORD_ONLY, default=field.default, annotation=hints[field.name]
        )
        for field in fields(options)
    }


def _explanations(options: type[Any]) -> list[str]:
    """The lines on the fields: what follows the first paragraph in the docstring of each class, base classes first."""
    classes = [kind for kind in reversed(options.__mro__) if is_dataclass(kind)]
    return [inspect.cleandoc(kind.__doc__ or "").partition("\n\n")[2] for kind in classes]


def checked_by(before: Callable[..., object]) -> Callable[[Callable[..., Artifact]], Callable[..., Artifact]]:
    """Have a builder or check refuse what cannot work before anything is trained.

    before  called with the wanted runs (`Results.planned`) and the arguments of the entry. It raises SpecError
    """

    def decorate(function: Callable[..., Artifact]) -> Callable[..., Artifact]:
        function.beforehand = before  # type: ignore[attr-defined]
        return function

    return decorate
