"""The list of verbs, in the order in which `plat --help` shows them. A verb's module is imported when it is used."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any, NamedTuple

import typer
from typer.core import TyperGroup


class Verb(NamedTuple):
    """Where a verb is written, and what `plat --help` says of it: the first line of its own help."""

    module: str
    function: str
    summary: str


VERBS = {
    "plan": Verb("execution", "plan", "Show what would run, and what it costs."),
    "sweep": Verb("execution", "sweep", "Run what is missing; print the report."),
    "tune": Verb("tune", "tune", "Search over options of runs; confirm the winner."),
    "run": Verb("execution", "run", "One run, from overrides alone."),
    "eval": Verb("evaluate", "evaluate", "Evaluate a checkpoint on fixed instances."),
    "status": Verb("status", "status", "How far the runs are."),
    "watch": Verb("watch", "watch", "How runs are doing, live."),
    "runs": Verb("runs", "runs", "One table of runs: state, axes that vary, attempts, metrics, cost."),
    "diff": Verb("diff", "diff", "How runs differ: their options, results and curves."),
    "logs": Verb("logs", "logs", "Print what a run wrote to its log."),
    "why": Verb("why", "why", "Explain a run: its state and identity."),
    "cancel": Verb("cancel", "cancel", "Stop runs, after a checkpoint."),
    "retry": Verb("retry", "retry", "Run failed runs again."),
    "sync": Verb("results", "sync", "Copy what runs recorded into MLflow."),
    "report": Verb("results", "report", "Build tables, figures and one HTML page."),
    "claims": Verb("results", "claims", "The verdict on each claim of the paper."),
    "rm": Verb("removal", "rm", "Remove runs for good, and their MLflow runs."),
    "gc": Verb("collect", "gc", "Free room: what a home no longer needs."),
    "archive": Verb("removal", "archive", "Set runs aside, so that they can be brought back."),
    "export": Verb(
        "bundle",
        "export_",
        "Write the results of experiment files as a bundle: small Parquet files, to keep in git or to send.",
    ),
    "import": Verb("bundle", "import_", "Bring the runs of bundles into this home and its store."),
    "options": Verb("options", "options", "Explain the options of runs, the builders of reports and the checks."),
    "ui": Verb("ui", "ui", "MLflow's own web page on this store."),
    "doctor": Verb("doctor", "doctor", "Check what works on this machine."),
}
GROUPS = {
    "base": Verb("base", "application", "The base models of the stand-ins.")
}  # verbs that have verbs of their own
EPILOG = (
    "Arguments with = are overrides, others are experiment files. Exit codes: 0 all fine; 2 bad input, or a home or "
    "store that cannot be used: nothing done; 3 some runs failed or are damaged; 130 interrupted, state safe."
)


HELP = {"help_option_names": ["--help", "-h"]}


class LazyGroup(TyperGroup):
    """Knows the names and summaries of the verbs, and imports the one that is asked for."""

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[str | None, Any, list[str]]:
        name, command, rest = super().resolve_command(ctx, args)
        return name, command if name is None else load(name), rest


def application() -> typer.Typer:
    """The typer application. Plain help texts: rich would take a third of the start-up time."""
    app = _plain_typer(
        cls=LazyGroup,
        context_settings=HELP,
        help="Runs the experiments of a paper and says which of its claims hold.",
        epilog=EPILOG,
    )

    @app.callback(invoke_without_command=True)
    def root(
        context: typer.Context,
        version: bool = typer.Option(False, "--version", help="Print the version and leave."),
    ) -> None:
        if version:
            from plat import __version__

            print(f"plat {__version__}")
            raise typer.Exit()
        if context.invoked_subcommand is None:
            print(context.get_help())

    for name, verb in {**VERBS, **GROUPS}.items():
        app.command(name, help=verb.summary)(_not_loaded)
    return app


def load(name: str) -> Any:
    """The whole command of a verb, with its options."""
    verb = (VERBS | GROUPS)[name]
    function: Callable[..., Any] = getattr(import_module(f"plat.cli.{verb.module}"), verb.function)
    if name in GROUPS:
        app = function()
    else:
        app = _plain_typer()
        app.command(name, context_settings=HELP)(function)
    command = typer.main.get_command(app)
    command.name = name
    return command


def _plain_typer(**options: Any) -> typer.Typer:
    return typer.Typer(rich_markup_mode=None, add_completion=False, pretty_exceptions_enable=False, **options)


def _not_loaded() -> None:
    """Stands for a verb in the help of `plat`; `LazyGroup` puts the verb itself in its place."""
