"""The verbs in the order of `plat --help`, and those of plug-ins (entry-point group `plat.verbs`).

The module of a verb is imported only when the verb is used. A plug-in publishes a function with
`@plat.cli.common.verb`, or a `plat.cli.common.VerbGroup`.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from functools import wraps
from importlib import import_module
from typing import TYPE_CHECKING, Any

import typer
from typer.core import TyperGroup

from plat.cli.common import VerbGroup
from plat.errors import PlatError, PluginError
from plat.plugins.loading import load_plugin, published

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

# Verb -> its line in `plat --help`, which repeats the first line of its help.
VERBS = {
    "init": "Write an experiment file for a script.",
    "plan": "Show what would run and what it costs.",
    "sweep": "Run what is missing and print the report.",
    "judge": "Judge two versions of a command.",
    "tune": "Search over options of runs and confirm the winner.",
    "run": "Execute one run, given by overrides alone.",
    "eval": "Evaluate a checkpoint on fixed instances.",
    "status": "Show the state of the runs.",
    "wait": "Wait until runs are done, decided or failed.",
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
    "import": "Import the runs of bundles, or of tables (CSV, JSON, Parquet), TensorBoard, MLflow or W&B.",
    "options": "Explain options of runs, builders of reports and checks.",
    "ui": "Show the store on MLflow's web page.",
    "doctor": "Check what works on this machine.",
    "mcp": "Offer verbs to agents as tools (MCP).",
    "skill": "Print the page that teaches an agent to use plat.",
    "schema": "Print the JSON Schema of what a verb prints as JSON.",
    "completion": "Print a script with which a shell completes commands.",
}
PLUGINS = "plat.verbs"  # the group of entry points
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

    def list_commands(self, ctx: Any) -> list[str]:
        return [*VERBS, *plugin_verbs()]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Return a verb for `plat --help`: of plat a placeholder with its summary, of a plug-in the verb; else None.

        The summary of a plug-in's verb that cannot be loaded says so.
        """
        if cmd_name not in self.commands and cmd_name in plugin_verbs():
            try:
                self.commands[cmd_name] = load(cmd_name)
            except PlatError as error:
                app = _plain_typer()
                app.command(cmd_name, help=f"(cannot be used: {error.what})")(_not_loaded)
                self.commands[cmd_name] = typer.main.get_command(app)
        return self.commands.get(cmd_name)

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
    for name, summary in VERBS.items():
        app.command(name, help=summary)(_not_loaded)
    return app


def load(name: str) -> Any:
    """Import a verb or a group of verbs, and return its click command with all options.

    Raises PluginError if the verb of a plug-in cannot be loaded, or is neither a function nor a VerbGroup.
    """
    app = _plain_typer()
    found = _of_plat(name) if name in VERBS else load_plugin(PLUGINS, name)
    if isinstance(found, VerbGroup):
        app.callback(invoke_without_command=True, help=found.summary)(_help_without_verb)
        for verb, function in found.verbs.items():
            app.command(verb)(function if name in VERBS else _of_plugin(name, function))
    elif callable(found):
        app.command(name, context_settings=HELP)(found if name in VERBS else _of_plugin(name, found))
    else:
        what = f"the verb {name!r} is a {type(found).__name__}, neither a function nor a VerbGroup"
        raise PluginError(what, where=published(PLUGINS)[name].value, fix="see plat.cli.common.verb and VerbGroup")
    command = typer.main.get_command(app)
    command.name = name
    return command


def functions_of(name: str) -> dict[str, Callable[..., int]]:
    """Return the functions of a verb by the words that call it: one, or one for each verb of a group; {} if unknown.

    Raises PluginError if the verb of a plug-in cannot be loaded.
    """
    if name not in {**VERBS, **plugin_verbs()}:
        return {}
    found = _of_plat(name) if name in VERBS else load_plugin(PLUGINS, name)
    return (
        {f"{name} {part}": function for part, function in found.verbs.items()}
        if isinstance(found, VerbGroup)
        else {name: found}
    )


def plugin_verbs() -> dict[str, EntryPoint]:
    """Return the verbs of plug-ins by name; a verb of plat hides one of the same name."""
    return {name: point for name, point in published(PLUGINS).items() if name not in VERBS}


def _of_plat(name: str) -> Any:
    module = import_module(f"plat.cli.verbs.{'import_' if name == 'import' else name}")
    return getattr(module, FUNCTIONS.get(name, name))


def _of_plugin(name: str, function: Callable[..., int]) -> Callable[..., int]:
    """Return the function of a plug-in's verb, whose mistakes become a PluginError at their line."""

    @wraps(function)
    def call(*arguments: Any, **options: Any) -> int:
        from plat.app.messages import in_our_words
        from plat.user_code import user_code

        try:
            with user_code(f"the verb {name!r} failed"):
                return function(*arguments, **options)
        except PluginError as error:
            cause = error.__cause__
            if isinstance(cause, SystemExit | typer.TyperException | typer.Exit | typer.Abort):
                raise cause from None
            if isinstance(cause, OSError) and (cause.errno in (errno.EPIPE, errno.EIO) or in_our_words(cause)):
                raise cause from None
            raise

    return call


def _plain_typer(**options: Any) -> typer.Typer:
    return typer.Typer(rich_markup_mode=None, add_completion=False, pretty_exceptions_enable=False, **options)


def _help_without_verb(context: typer.Context) -> None:
    if context.invoked_subcommand is None:
        print(context.get_help())


def _not_loaded() -> None:
    """Placeholder for a verb in the help of `plat`; `LazyGroup` replaces it with the verb."""
