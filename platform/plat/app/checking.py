"""Check experiments before their runs start, and warn on stderr about settings without effect."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from plat.app.entries import distinct, standing
from plat.app.messages import followed, tell
from plat.errors import SpecError
from plat.store.home import Home
from plat.units import counted

if TYPE_CHECKING:
    from plat.planning.plan import Plan
    from plat.spec.expansion.experiment import Experiment, Run


def plan_checked(
    experiments: Sequence[Experiment], home: Home, overrides: Sequence[str], jobs: int | None = None
) -> Plan:
    """Return the plan of these experiments, after the checks and with the warnings of a sweep. Writes nothing.

    jobs  workers at once; None: as many as the cores allow

    Raises SpecError for a report entry, claim or run that cannot work.
    """
    from plat.planning import make_plan

    for experiment in experiments:
        check_report(experiment)
    made = make_plan(experiments, home, jobs=jobs, standing=standing)
    check_asked(distinct(experiments), [row.run for row in made.left], home, overrides)
    warn_of_idle_parts(experiments, overrides)
    return made


def check_asked(runs: Sequence[Run], left: Iterable[Run], home: Home, overrides: Sequence[str]) -> None:
    """Let each trainer check the runs that are `left`, and warn about changed code and overrides without effect.

    Raises SpecError for a run that cannot work.
    """
    from plat.planning.changed_code import changed_code, doubts, without_files
    from plat.planning.check import check_runs

    check_runs(followed(list(left), "checking runs"))
    for line in [*without_files(runs), *doubts(runs), *changed_code(runs, home)]:
        tell(f"note: {line}")
    warn_of_idle(runs, overrides)


def check_report(experiment: Experiment) -> None:
    """Tell which entries of the file's report and claims overrides leave without their runs. Needs no results.

    Raises SpecError if an entry cannot work.
    """
    if experiment.report or experiment.claims:
        from plat_analysis.plugins.entry_checking import check_entries

        for note in check_entries(experiment):
            tell(f"note: {note}")


def check_reference(experiment: Experiment) -> None:
    """Warn on stderr when runs cannot be compared with the reference results; BundleError when these are damaged."""
    folder = experiment.reference_folder
    if folder is None:
        return
    if not folder.exists():
        tell(f"warning: {experiment.path.name}: there are no reference results in {folder}")
        return
    from plat_analysis.reference.reference_runs import reference_problem

    if problem := reference_problem(experiment):
        tell(f"warning: {problem}")


def warn_of_idle(runs: Sequence[Run], overrides: Sequence[str]) -> None:
    """Warn on stderr about overrides of the command line that have no effect in any of the runs."""
    from plat.planning.check import idle_overrides

    for key, reason in idle_overrides(runs, _keys_of(overrides)).items() if runs and overrides else ():
        tell(f"warning: {key} has no effect: {reason}")


def warn_of_idle_parts(experiments: Sequence[Experiment], overrides: Sequence[str]) -> None:
    """Warn on stderr about axes and `base` values of the files that have no effect, or only at some positions.

    Axes that an override sets are skipped. The values of `base` are checked only without overrides.
    """
    from plat.planning.check import idle_overrides, shared_positions

    for experiment in experiments:
        axes = [axis for axis, values in experiment.axes.items() if len(values) > 1 and axis not in _keys_of(overrides)]
        idle = idle_overrides(experiment.runs, axes)
        for axis, reason in idle.items():
            tell(f"warning: {experiment.path}: the runs of the axis {axis} cannot differ: {reason}")
        for keys, (number, reason) in shared_positions(experiment).items():
            if not idle.keys() & set(keys):
                which = f"{number} of {counted(len(experiment.cells), 'position')}"
                share = "shares its run with another" if number == 1 else "share their runs with others"
                tell(f"note: {experiment.path}: {which} {share}, differing in {' and '.join(keys)} alone: {reason}")
        base = () if overrides else [key for key in experiment.base if key not in experiment.axes]
        for key, reason in idle_overrides(experiment.runs, base).items():
            tell(f"warning: {experiment.base[key]}: {key} has no effect: {reason}")


def warn_of_machine(runs: Sequence[Run], home: Home) -> None:
    """Warn on stderr if this machine is too small for one of these runs; another place may execute it."""
    from plat.planning.check import check_machine

    try:
        check_machine(runs, home)
    except SpecError as error:
        tell(f"warning: not on this machine: {error.what} (fix: {error.fix})")


def warn_of_needs(runs: Iterable[Run]) -> None:
    """Warn on stderr about what these runs need beside plat and this machine does not have, such as a server.

    Raises SpecError if a trainer refuses a run.
    """
    from plat.planning.check import need_lines, needs_of

    absent = [need for need in needs_of(runs) if need.absent]
    for line in need_lines(absent):
        tell(line if line.startswith(" ") else f"warning: a run {line}")


def _keys_of(overrides: Sequence[str]) -> list[str]:
    """Return the keys or axes that overrides set."""
    return [override.partition("=")[0].strip().removeprefix("matrix.") for override in overrides]
