"""Processor time of `plat --help`, beside the same interpreter importing only typer: the lowest of several repeats."""

from __future__ import annotations

import sys

from measuring import alternately, figure

REFERENCE = "import typer"

if __name__ == "__main__":
    help_command, import_command = [sys.executable, "-m", "plat", "--help"], [sys.executable, "-c", REFERENCE]
    ours, reference = (cost.seconds for cost in alternately(help_command, import_command, repeats=10))
    against = f"`{REFERENCE}` alone: {reference:.3f} s"
    figure("plat --help, processor time", ours, "s", against, ratio=reference / ours)
