"""What acts on the whole process: the options `-v` and `--allow-import`, and how far a verb has come."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from typing import Annotated, ParamSpec

import typer

from plat.trainer.plugins import ALLOW_IMPORT

P = ParamSpec("P")


@dataclass
class Settings:
    """What acts on the whole process.

    verbose     say more, and show tracebacks
    dispatched  runs have begun: from now on a failing disk or store means that some failed, not that nothing was done
    concluded   the user has been told how it ended
    """

    verbose: bool = False
    dispatched: bool = False
    concluded: bool = False


settings = Settings()


def _set_verbose(value: bool) -> bool:
    settings.verbose = settings.verbose or value
    if value:
        import logging

        logging.basicConfig(level=logging.INFO, format="%(levelname)s %(name)s: %(message)s")
    return value


def _set_allow_import(value: bool) -> bool:
    if value:
        os.environ[ALLOW_IMPORT] = "1"
    return value


VerboseOption = Annotated[
    bool, typer.Option("-v", "--verbose", callback=_set_verbose, help="Say more; show tracebacks.")
]
AllowImportOption = Annotated[
    bool,
    typer.Option(
        "--allow-import",
        callback=_set_allow_import,
        help="Import a trainer named as MODULE:ATTRIBUTE, which no installed package publishes: runs its code.",
    ),
]


def verb(*, reads_trainers: bool = False) -> Callable[[Callable[P, int]], Callable[P, int]]:
    """Give a verb `-v` on its command line, and `--allow-import` where it reads files or runs that name a trainer.

    Both have done their work when the verb is called, so that it does not take them.
    """
    added = {"allow_import": AllowImportOption} if reads_trainers else {}
    parameters = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=False, annotation=option)
        for name, option in {**added, "verbose": VerboseOption}.items()
    ]

    def decorate(function: Callable[P, int]) -> Callable[P, int]:
        @wraps(function)
        def call(*arguments: P.args, **options: P.kwargs) -> int:
            for parameter in parameters:
                options.pop(parameter.name, None)
            return function(*arguments, **options)

        signature = inspect.signature(function, eval_str=True)
        signature = signature.replace(parameters=[*signature.parameters.values(), *parameters])
        call.__signature__ = signature  # type: ignore[attr-defined]
        # Typer asks for these as well, and would compile those of every verb once more if they were texts.
        call.__annotations__ = {name: parameter.annotation for name, parameter in signature.parameters.items()}
        return call

    return decorate
