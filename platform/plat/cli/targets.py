"""Runs named on a command line: experiment files (with overrides), names and ids of runs, and conditions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from plat.cli.common import find_run, load_experiments
from plat.cli.run_facts import RunFacts
from plat.cli.runs import check_selection
from plat.cli.selection import parse_where
from plat.cli.status import entries_asked, entry_in
from plat.errors import SpecError
from plat.store.home import Home

if TYPE_CHECKING:
    from plat.spec.experiment import Experiment

Targets = Annotated[
    list[str] | None,
    typer.Argument(metavar="[RUN | SPEC | KEY=VALUE]...", help="Runs, or experiment files with overrides."),
]


@dataclass(frozen=True)
class Chosen:
    """The runs that are meant, and the experiment files that were named."""

    runs: list[RunFacts]
    experiments: list[Experiment]


def choose_runs(home: Home, arguments: Sequence[str] | None, where: Sequence[str] | None, verb: str) -> Chosen:
    """The runs of the named files and the named runs, of which those that fulfil the conditions.

    With conditions alone, of all runs of the home. SpecError when nothing is named: that would mean every run.
    """
    if not arguments and not where:
        raise SpecError(
            f"`plat {verb}` needs to know which runs",
            where=f"the command line: plat {verb}",
            mend="name runs or experiment files, or give a condition such as --where state=failed",
        )
    selection = parse_where(where)
    names = [text for text in arguments or () if _is_run(text)]
    experiments = load_experiments([text for text in arguments or () if text not in names], required=False)
    everything = {paths.id: RunFacts(home, entry_in(paths)) for paths in (find_run(home, name) for name in names)}
    if experiments or not names:
        for entry in entries_asked(home, experiments):
            everything.setdefault(entry.id, RunFacts(home, entry))
    check_selection(selection, list(everything.values()))
    runs = [facts for facts in everything.values() if selection.holds(facts.value)]
    return Chosen(runs, experiments)


def _is_run(text: str) -> bool:
    """Whether an argument names a run, not a file or an override."""
    return "=" not in text and not text.endswith((".yaml", ".yml")) and not Path(text).is_file()
