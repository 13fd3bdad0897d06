"""Choose the metrics of foreign runs, and the metric that counts their steps."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

from plat.app.recorded.foreign_run import ForeignRun, merged
from plat.errors import SpecError
from plat.suggest import suggest
from plat.trainer.script.readers.objects import Logged
from plat.trainer.script.readers.wandb import OF_WANDB

SYSTEM = ("system/", "system.")  # metrics below it are of the machine


def with_metrics(runs: Sequence[ForeignRun], choice: Choice) -> list[ForeignRun]:
    """Return the runs with the chosen metrics, by default all; the history of a run may then be empty.

    Raises SpecError if no run has a metric, or not one that the choice names.
    """
    names = dict.fromkeys(name for run in runs for metrics in run.history.values() for name in metrics)
    check_known(choice, names, runs[0].place)
    chosen = set(choice.metrics) or {name for name in names if is_metric(name) and name != choice.step}
    found = [replace(run, history=_history(run, choice.step, chosen)) for run in runs]
    if not any(run.history for run in found):
        fix = "log numbers, or name metrics that the runs have: --metrics A,B"
        raise SpecError("no run has a metric", where=runs[0].place, fix=fix)
    return found


def check_known(choice: Choice, names: Collection[str], place: str) -> None:
    """Raise SpecError if a metric that the choice names is not among these names."""
    for name in filter(None, [*choice.metrics, choice.step]):
        if name not in names:
            shown = [other for other in names if is_metric(other)]
            raise SpecError(f"no run has the metric {name!r}", where=place, fix=suggest(name, shown, "metrics"))


def is_metric(name: str) -> bool:
    """Return True unless a tool itself logs the metric, about its time or its machine."""
    return name not in OF_WANDB and not name.startswith(SYSTEM)


def _history(run: ForeignRun, step: str, chosen: set[str]) -> dict[int, dict[str, float]]:
    """Return the chosen metrics by step; with `step`, a metric, by its value."""
    rows = []
    for at, metrics in sorted(run.history.items()):
        place = metrics.get(step) if step else at
        if place is None:  # this was logged without the metric that counts steps
            continue
        if place < 0 or place != place // 1:
            what = f"the step {step or ''} of the run {run.name} is {place!r}, which is no whole number of at least 0"
            raise SpecError(what.replace("  ", " "), where=run.place, fix="name another metric with --step")
        rows.append(Logged(int(place), {name: value for name, value in metrics.items() if name in chosen}, 0.0))
    return merged(rows)[0]


# What a user chooses of the runs to import.

REPEATED = ("longest", "first", "last")
NO_SEED = "none"  # `--seed none`: number the runs of equal values, whatever seeds they have


@dataclass(frozen=True)
class Choice:
    """The options of an import.

    axes        keys of values that become axes; empty: all that vary
    seed        the key of the seed; "": a key `seed`, or the only one that ends in .seed or _seed; NO_SEED: none
    metrics     empty: all
    step        the metric or column that counts steps; "": the source's own step
    experiment  of MLflow
    unfinished  also import runs that did not finish

    Of tables:

    path        a pattern of paths below a source, such as `{algorithm}/{task}.csv`; "": pieces such as `lr=0.1`
    beside      the name of a file with values beside each file; "": `config.json` and the like, if they are there
    levels      of a JSON file: names of the keys above its records
    value       the column of numbers, if there is one only: `ys`, or `score=reward,success`, the first of these columns
                that a file has, as the metric `score`; "": all that are no values of runs
    join        a CSV file whose columns are values of runs: those that the runs have tell the row, others are added
    repeated    which run counts of several with equal values and seed: REPEATED; "": none, they are refused
    named_by    the column that names the metric of each number in `value`; "": the metric is called as its column
    """

    axes: tuple[str, ...] = ()
    seed: str = ""
    metrics: tuple[str, ...] = ()
    step: str = ""
    experiment: str = ""
    unfinished: bool = False
    path: str = ""
    beside: str = ""
    levels: tuple[str, ...] = ()
    value: str = ""
    join: str = ""
    named_by: str = ""
    repeated: str = ""

    def seed_key(self, keys: Collection[str]) -> str:
        """Return the key that holds seeds, even if they do not count; "" if none or several may be meant."""
        if self.seed not in ("", NO_SEED):
            return self.seed
        if "seed" in keys:
            return "seed"
        found = [key for key in keys if key.lower() == "seed" or key.endswith((".seed", "_seed"))]
        return found[0] if len(found) == 1 else ""
