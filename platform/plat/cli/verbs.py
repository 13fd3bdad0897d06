"""The list of verbs, in the order in which `plat --help` shows them."""

from __future__ import annotations

from collections.abc import Callable

import typer

from plat.cli import base, bundle, doctor, evaluate, execution, logs, results, retry, status, ui, why

VERBS: dict[str, Callable[..., int]] = {
    "plan": execution.plan,
    "sweep": execution.sweep,
    "run": execution.run,
    "eval": evaluate.evaluate,
    "status": status.status,
    "logs": logs.logs,
    "why": why.why,
    "retry": retry.retry,
    "sync": results.sync,
    "report": results.report,
    "claims": results.claims,
    "export": bundle.export_,
    "import": bundle.import_,
    "ui": ui.ui,
    "doctor": doctor.doctor,
}
EPILOG = (
    "Arguments with = are overrides, others are experiment files. Exit codes: 0 all fine; 2 bad input, or a home or "
    "store that cannot be used: nothing done; 3 some runs failed or are damaged; 130 interrupted, state safe."
)


def application() -> typer.Typer:
    """The typer application. Plain help texts: rich would take a third of the start-up time."""
    app = typer.Typer(
        help="Runs the experiments of a paper and says which of its claims hold.",
        epilog=EPILOG,
        rich_markup_mode=None,
        add_completion=False,
        no_args_is_help=True,
        pretty_exceptions_enable=False,
    )

    @app.callback(invoke_without_command=True)
    def root(version: bool = typer.Option(False, "--version", help="Print the version and leave.")) -> None:
        if version:
            from plat import __version__

            print(f"plat {__version__}")
            raise typer.Exit()

    for name, verb in VERBS.items():
        app.command(name)(verb)
    app.add_typer(base.application(), name="base")
    return app
