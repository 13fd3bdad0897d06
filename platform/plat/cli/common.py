"""What verbs share: `@verb`, options and arguments, and exit codes."""

from __future__ import annotations

import inspect
import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial, wraps
from pathlib import Path
from typing import Annotated, ParamSpec

import typer

from plat.cli.completion import keys, runs, runs_or_keys
from plat.cli.result import Result, called, settings
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


def _set_json(value: bool) -> bool:
    settings.json = settings.json or value
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


JsonOption = Annotated[bool, typer.Option("--json", callback=_set_json, help="Print JSON for a program to read.")]


def verb(
    gives: type | None = None, *, reads_trainers: bool = False, lines: bool = False
) -> Callable[[Callable[P, Result | int]], Callable[P, int]]:
    """Make a function a verb: it gets `-v`, with `gives` also `--json`, with `reads_trainers` `--allow-import`.

    The function does not receive these options. It returns a `Result`, or without `gives` an exit code.

    gives  the type of its JSON in `plat.cli.schemas`, a TypedDict
    lines  the verb takes long: its JSON is printed as lines, the last of which is the result
    """
    added = {"allow_import": AllowImportOption} if reads_trainers else {}
    added |= {"as_json": JsonOption} if gives is not None else {}
    parameters = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=False, annotation=option)
        for name, option in {**added, "verbose": VerboseOption}.items()
    ]

    def decorate(function: Callable[P, Result | int]) -> Callable[P, int]:
        @wraps(function)
        def call(*arguments: P.args, **options: P.kwargs) -> int:
            for parameter in parameters:
                options.pop(parameter.name, None)
            return called(partial(function, *arguments, **options), lines=lines)

        signature = inspect.signature(function, eval_str=True)
        signature = signature.replace(parameters=[*signature.parameters.values(), *parameters])
        call.__signature__ = signature  # type: ignore[attr-defined]
        # Typer also reads the annotations; as strings they would be compiled again for every verb.
        call.__annotations__ = {name: parameter.annotation for name, parameter in signature.parameters.items()}
        call.gives, call.lines = gives, lines  # type: ignore[attr-defined]  # for `plat schema`
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


def on_terminal() -> bool:
    return sys.stdout.isatty()


def shown(path: Path) -> str:
    """Return the path relative to the working directory if it is below it, else unchanged."""
    try:
        relative = str(path.absolute().relative_to(Path.cwd()))
    except ValueError:
        return str(path)
    return relative
