"""What runs need beside this package: the servers, files and programs of their environments."""

from __future__ import annotations

from collections.abc import Iterable

from plat.planning.check import call_each
from plat.spec.composition.trainer_calls import checked_call
from plat.spec.expansion.experiment import Run
from plat.trainer.api import Need


def needs_of(runs: Iterable[Run]) -> list[Need]:
    """Return the different needs of these runs, in their order. Raises SpecError if a trainer refuses a run."""
    found: dict[Need, None] = {}

    def note(run_needs: Iterable[Need]) -> None:
        found.update(dict.fromkeys(run_needs))

    call_each(runs, "needs", lambda spec: lambda config: note(checked_call(spec, "needs")(config)))
    return list(found)


def need_lines(needs: Iterable[Need]) -> list[str]:
    """Return a line for each need, and one with the fix for each that is not there."""
    lines = []
    for need in needs:
        lines.append(f"needs {need.what}: {need.absent or 'it is here'}")
        if need.absent and need.fix:
            lines.append(f"  fix: {need.fix}")
    return lines
