"""`plat diff`: the config keys in which runs differ, and their curves in one plot. Changes nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from plat.app.chosen_runs import choose_runs
from plat.app.entries import entry_in
from plat.app.home_runs import home_to_read
from plat.app.run_facts import RunFacts
from plat.cli.common import HomeOption, Targets, WhereOption, verb
from plat.cli.result import Result
from plat.cli.schemas.runs import DiffData
from plat.cli.screen.report_text import LETTERS, Curve, plot
from plat.cli.screen.table import table, terminal_width
from plat.errors import SpecError
from plat.store.run_directory.paths import RunPaths
from plat.store.run_directory.run_files import headline_of, load_meta, read_config
from plat.suggest import suggest
from plat.units import counted

FACTS = ("state", "outcome", "iteration", "success", "best", "seconds")
Panels = Mapping[str, Mapping[str, Curve]]  # metric -> run -> its curve
PIPE_WIDTH = 100  # columns of a plot in a pipe without a width


@verb(DiffData, reads_trainers=True)
def diff(
    arguments: Targets = None,
    where: WhereOption = None,
    metric: Annotated[
        list[str] | None, typer.Option("--metric", metavar="KEY", help="Metric drawn [success]; repeatable.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option("--out", metavar="FILE", help="Also draw the curves into a .png, .svg or .pdf file.")
    ] = None,
    home: HomeOption = None,
) -> Result:
    """Compare runs: their options, results and curves.

    Takes two runs or more, or those of experiment files. For example: plat diff 1a2b3c4d 5e6f7a8b --metric accuracy
    --out curves.png
    """
    from plat.store.disk.durable import write
    from plat_analysis.figures.condition_curves import draw_runs

    kind = _picture_format(out)
    place = home_to_read(home)
    runs = _runs(choose_runs(place, arguments, where, "diff")[0])
    differing = differences(runs)
    facts = [RunFacts(place, entry_in(paths)) for paths in runs]
    panels = {key: {run.entry.name: run.curve(key) for run in facts} for key in _metrics(metric, facts)}
    if out is not None:
        if not panels:
            raise SpecError("the runs have no curve to draw", where=str(out), fix="name a metric with --metric")
        write(out, draw_runs(panels, kind))
    data = {"runs": [run.as_json() for run in facts], "differences": differing, "curves": panels}
    drawn = [f"curves: {out}"] if out else []
    text = lambda: "\n".join([*_lines(facts, differing, panels), *drawn])  # noqa: E731
    return Result({**data, "picture": str(out) if out else None}, text)


def differences(runs: Sequence[RunPaths]) -> dict[str, list[Any]]:
    """Return dotted key -> the value of each run, for every key with unequal values; None where a run has no value.

    The keys are those of the config, `trainer_version`, `fingerprint.*` (the trainer's facts about the run), and
    `commit`. The values are in the order of `runs`. Raises HomeError if a config is missing, damaged or edited.
    """
    flat = [_described(paths) for paths in runs]
    keys = list(dict.fromkeys(key for description in flat for key in description))
    values = {key: [description.get(key) for description in flat] for key in keys}
    return {key: row for key, row in values.items() if any(value != row[0] for value in row)}


def _described(paths: RunPaths) -> dict[str, Any]:
    from plat.store.mlflow.run_tags import flatten

    meta = load_meta(paths) or {}
    facts = {"trainer_version": meta.get("trainer_version"), "fingerprint": meta.get("fingerprint") or {}}
    return {**flatten(read_config(paths)), **flatten(facts), "commit": (meta.get("code") or {}).get("commit")}


def _runs(chosen: Sequence[RunFacts]) -> list[RunPaths]:
    """Return the directories of the chosen runs. Raises SpecError unless there are two to len(LETTERS) of them."""
    runs = [facts.paths for facts in chosen if facts.paths.root.is_dir()]
    if len(chosen) == 1:
        what = f"`plat diff` compares two runs or more, and {chosen[0].entry.name} is one"
        raise SpecError(what, where="the command line", fix="name another run; `plat runs` lists those of a home")
    if len(runs) < 2:
        raise SpecError(
            "`plat diff` compares two runs or more",
            where=f"{len(runs)} of the {len(chosen)} runs named {'has' if len(runs) == 1 else 'have'} been started",
            fix="name one that was started; `plat runs` lists those of a home",
        )
    if len(runs) > len(LETTERS):
        raise SpecError(f"{len(runs)} runs are too many to draw", fix=f"choose at most {len(LETTERS)} with --where")
    return runs


def _metrics(asked: Sequence[str] | None, runs: Sequence[RunFacts]) -> list[str]:
    """Return the metrics to draw; default: the headline metrics of the runs and those that their trainers show."""
    known = list(dict.fromkeys(key for run in runs for key in run.metric_names()))
    for key in asked or ():
        if key not in known:
            raise SpecError(f"no run has a metric {key!r}", where="--metric", fix=suggest(key, known, "metrics"))
    usual = [headline_of(load_meta(run.paths)) for run in runs]
    usual += [metric for run in runs for metric in run.shown.values()]
    return list(dict.fromkeys(asked or (key for key in usual if key in known)))


def _lines(runs: Sequence[RunFacts], differing: dict[str, list[Any]], panels: Panels) -> list[str]:
    rows = [[f"{letter}  {run.entry.name}", *map(run.text, FACTS)] for letter, run in zip(LETTERS, runs, strict=False)]
    verb = "differs" if len(differing) == 1 else "differ"
    lines = [table(["   run", *FACTS], rows, drop_empty=True)]
    lines.append(f"\n{counted(len(differing), 'value')} {verb}:" if differing else "\nno value differs")
    if differing:
        rows = [[key, *map(_short, values)] for key, values in differing.items()]
        lines.append(table(["key", *LETTERS[: len(runs)]], rows))
    for key, curves in panels.items():
        drawn = plot(key, curves, terminal_width() or PIPE_WIDTH)
        lines.append(f"\n{drawn}" if drawn else f"\n{key}: no finite value")
    return lines


def _short(value: Any) -> Any:
    """Return a value for the table: hashes are cut, numbers stay numbers."""
    if isinstance(value, str) and len(value) in (40, 64):
        return value[:12]
    return value if isinstance(value, int | float | None) and not isinstance(value, bool) else str(value)


def _picture_format(out: Path | None) -> str:
    """Return the format of the picture; SpecError, before anything is read, for a file that cannot be drawn."""
    from plat_analysis.figures.condition_curves import FORMATS

    if out is None:
        return FORMATS[0]
    kind = out.suffix.removeprefix(".").lower()
    if kind not in FORMATS:
        raise SpecError(f"cannot draw into {out}", where="--out", fix=f"end its name in .{', .'.join(FORMATS)}")
    if not out.parent.is_dir():
        raise SpecError(f"the folder {out.parent} does not exist", where="--out", fix="make it first")
    return kind
