"""The verbs in the order of `plat --help`. The module of a verb is imported only when the verb is used."""

from __future__ import annotations

import os
from importlib import import_module
from typing import Any

import typer
from typer.core import TyperGroup

# Verb -> its line in `plat --help`, which repeats the first line of its help.
VERBS = {
    "init": "Write an experiment file for a script.",
    "plan": "Show what would run and what it costs.",
    "sweep": "Run what is missing and print the report.",
    "tune": "Search over options of runs and confirm the winner.",
    "run": "Execute one run, given by overrides alone.",
    "eval": "Evaluate a checkpoint on fixed instances.",
    "status": "Show the state of the runs.",
    "watch": "Follow the progress of runs live.",
    "runs": "Print a table of runs: state, axes, attempts, metrics and cost.",
    "diff": "Compare runs: their options, results and curves.",
    "logs": "Print the log of a run.",
    "why": "Explain a run: its state and identity.",
    "cancel": "Stop runs after a checkpoint.",
    "retry": "Run failed runs again.",
    "sync": "Copy what runs recorded into MLflow.",
    "report": "Build tables, figures and one HTML page.",
    "claims": "Print the verdict on each claim.",
    "rm": "Remove runs for good, and their MLflow runs.",
    "gc": "Delete files that a home no longer needs.",
    "export": "Write results as a bundle: small Parquet files.",
    "import": "Import the runs of bundles, or of CSV, TensorBoard, MLflow or W&B.",
    "options": "Explain options of runs, builders of reports and checks.",
    "ui": "Show the store on MLflow's web page.",
    "doctor": "Check what works on this machine.",
    "completion": "Print a script with which a shell completes commands.",
}
# Groups of verbs with their own subcommands.
GROUPS = {
    "base": "List, build and verify base models of the stand-ins.",
    "sandbox": "Run a program that nobody trusts, and try the sandbox.",
    "retrieval": "Serve a corpus to the task searchqa, and make one.",
}
# The function of a verb is called like the verb, except these.
FUNCTIONS = {
    "eval": "evaluate",
    "import": "import_",
}
EPILOG = (
    "Arguments with = are overrides, others are experiment files. Exit codes: 0 all fine; 2 bad input, or a home or "
    "store that cannot be used: nothing done; 3 some runs failed or are damaged; 130 interrupted, state safe."
)


COMPLETES = "_PLAT_COMPLETE"  # Typer's variable of the environment, set by a shell that asks for completions
HELP = {"help_option_names": ["--help", "-h"]}


class LazyGroup(TyperGroup):
    """List the verbs by name and summary, and import only the one that is called."""

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[str | None, Any, list[str]]:
        name, command, rest = super().resolve_command(ctx, args)
        return name, command if name is None else load(name), rest


def application() -> typer.Typer:
    """Return the typer application, with plain help texts: rich would take a third of the start-up time."""
    app = _plain_typer(
        cls=LazyGroup,
        context_settings=HELP,
        help="Sweeps any training script over settings and seeds, and says which claims about the results hold.",
        epilog=EPILOG,
    )

    @app.callback(invoke_without_command=True)
    def root(
        context: typer.Context, version: bool = typer.Option(False, "--version", help="Print the version and leave.")
    ) -> None:
        if version:
            from plat.store.provenance.code_state import version_with_commit

            print(f"plat {version_with_commit()}")
            raise typer.Exit()
        if context.invoked_subcommand is None:
            print(context.get_help())

    if COMPLETES in os.environ:
        from typer.completion import completion_init  # type: ignore[attr-defined]

        completion_init()
    for name, summary in {**VERBS, **GROUPS}.items():
        app.command(name, help=summary)(_not_loaded)
    return app


def load(name: str) -> Any:
    """Import a verb or a group of verbs, and return its click command with all options."""
    module = import_module(f"plat.cli.verbs.{'import_' if name == 'import' else name}")
    app = _plain_typer()
    if name in GROUPS:
        app.callback(invoke_without_command=True, help=GROUPS[name])(_help_without_verb)
        for verb, function in module.VERBS.items():
            app.command(verb)(function)
    else:
        app.command(name, context_settings=HELP)(getattr(module, FUNCTIONS.get(name, name)))
    command = typer.main.get_command(app)
    command.name = name
    return command


def _plain_typer(**options: Any) -> typer.Typer:
    return typer.Typer(rich_markup_mode=None, add_completion=False, pretty_exceptions_enable=False, **options)


def _help_without_verb(context: typer.Context) -> None:
    if context.invoked_subcommand is None:
        print(context.get_help())


def _not_loaded() -> None:
    """Placeholder for a verb in the help of `plat`; `LazyGroup` replaces it with the verb."""
