"""What verbs share: `@verb`, options and arguments, exit codes, and printing of JSON."""

from __future__ import annotations

import inspect
import math
import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from typing import Annotated, Any, ParamSpec

import typer

from plat.cli.completion import keys, runs, runs_or_keys
from plat.plugins.loading import ALLOW_IMPORT

# Exit codes other than 0. Bad input is 2 (`plat.errors`), Ctrl-C 130 (`plat.processes.interrupt`).
RUNS_FAILED = 3
PIPE_CLOSED = 128 + 13  # what a shell reports for a program ended by SIGPIPE

P = ParamSpec("P")

Arguments = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="[SPEC | KEY=VALUE]...", help="Experiment files, and overrides of their values.", autocompletion=keys
    ),
]
RunArgument = Annotated[
    str, typer.Argument(metavar="RUN", help="A run's name, id, or the beginning of its id.", autocompletion=runs)
]
HomeOption = Annotated[
    str | None, typer.Option("--home", metavar="DIR", help="Folder of the runs [PLAT_HOME, ./plat-home].")
]
StoreOption = Annotated[
    str | None, typer.Option("--store", metavar="URI", help="MLflow store [MLFLOW_TRACKING_URI, SQLite in the home].")
]
CodeOfRunsOption = Annotated[
    bool, typer.Option("--code-of-runs", help="Where code has changed since, take the runs of the earlier code.")
]
DecideOption = Annotated[bool, typer.Option("--decide", help="Add seeds at planned looks until claims are decided.")]
JobsOption = Annotated[
    int | None, typer.Option("--jobs", "-j", min=1, metavar="N", help="Runs at once [as many as the cores allow].")
]
StealOption = Annotated[bool, typer.Option("--steal", help="Take over runs whose process cannot be checked.")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON for a program to read.")]
OnOption = Annotated[str, typer.Option("--on", metavar="NAME", help="Dispatcher: local, slurm, ray or a plug-in.")]
WaitOption = Annotated[
    bool | None, typer.Option("--wait/--detach", help="Wait for the runs, or return at once [slurm].")
]
WhereOption = Annotated[
    list[str] | None,
    typer.Option("--where", metavar="KEY=VALUE", help="Only runs that fit; also !=, <, <=, >, >=. Repeatable."),
]
QuietOption = Annotated[bool, typer.Option("-q", "--quiet", help="Print verdicts and errors only.")]
Targets = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="[RUN | SPEC | KEY=VALUE]...",
        help="Runs, or experiment files with overrides.",
        autocompletion=runs_or_keys,
    ),
]


def with_decide(arguments: list[str] | None, decide: bool) -> list[str]:
    """Return the arguments of a verb, with `decide=true` where its option `--decide` is given."""
    return [*(arguments or ()), *(["decide=true"] * decide)]


@dataclass
class Settings:
    """Settings of the whole process. `verbose`: print more, and show tracebacks."""

    verbose: bool = False


settings = Settings()


def _set_verbose(value: bool) -> bool:
    settings.verbose = settings.verbose or value
    if value:
        import logging

        logging.basicConfig(format="%(levelname)s %(name)s: %(message)s")
        logging.getLogger("plat").setLevel(logging.INFO)  # and not those of other libraries
    return value


def _set_allow_import(value: bool) -> bool:
    if value:
        os.environ[ALLOW_IMPORT] = "1"
    return value


VerboseOption = Annotated[
    bool, typer.Option("-v", "--verbose", callback=_set_verbose, help="Print more, and tracebacks.")
]
AllowImportOption = Annotated[
    bool,
    typer.Option(
        "--allow-import", callback=_set_allow_import, help="Allow trainers MODULE:ATTRIBUTE; runs their code."
    ),
]


def verb(*, reads_trainers: bool = False) -> Callable[[Callable[P, int]], Callable[P, int]]:
    """Add `-v` to a verb, and with `reads_trainers` also `--allow-import`; the verb itself does not receive them."""
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
        # Typer also reads the annotations; as strings they would be compiled again for every verb.
        call.__annotations__ = {name: parameter.annotation for name, parameter in signature.parameters.items()}
        return call

    return decorate


@dataclass(frozen=True)
class VerbGroup:
    """A verb with verbs of its own, such as `plat base list`.

    summary  its line in `plat --help`
    verbs    name -> function with `@verb()`
    """

    summary: str
    verbs: Mapping[str, Callable[..., int]]


def print_json(value: Any) -> None:
    """Print a value as one JSON document: NaN and infinities as null, objects such as a path as text."""
    import json

    print(json.dumps(_without_nan(value), indent=2, default=str, allow_nan=False))


def _without_nan(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_nan(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_without_nan(inner) for inner in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def on_terminal() -> bool:
    return sys.stdout.isatty()


def shown(path: Path) -> str:
    """Return the path relative to the working directory if it is below it, else unchanged."""
    try:
        relative = str(path.absolute().relative_to(Path.cwd()))
    except ValueError:
        return str(path)
    return relative
