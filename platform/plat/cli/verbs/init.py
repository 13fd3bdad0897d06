"""`plat init`: write an experiment file for a script."""

from __future__ import annotations

import shlex
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from plat.app.first_file.making import FirstFile, make_first_file
from plat.cli.common import shown, verb
from plat.cli.result import Result
from plat.cli.schemas.others import InitData
from plat.cli.screen.table import fitted
from plat.trainer.script.trial import Trial
from plat.units import counted

HOW_TO_LOG = (
    'The script seems to log no metrics. Let it print lines of JSON, such as {"step": 1, "loss": 0.5}, or call '
    "plat.log(step, loss=0.5) after `import plat`. If it prints lines such as `step 1: loss 0.5`, add "
    "`script.metrics: text`."
)


@verb(InitData)
def init(
    script: Annotated[str, typer.Argument(metavar="SCRIPT", help="A Python script or a program, e.g. train.py.")],
    words: Annotated[
        list[str] | None,
        typer.Argument(metavar="[WORD]...", help="What follows it in the command; options of it after `--`."),
    ] = None,
    out: Annotated[
        Path | None, typer.Option("--out", metavar="FILE", help="The new file [the script's name with .yaml].")
    ] = None,
    python: Annotated[
        str, typer.Option("--python", metavar="PATH", help="The Python that runs the script [that of plat].")
    ] = "",
    tries: Annotated[
        bool, typer.Option("--try", help="Run the script for up to 20 s, and write what reads its metrics.")
    ] = False,
    seconds: Annotated[
        float, typer.Option("--seconds", min=1, metavar="S", help="How long --try runs the script.")
    ] = 20.0,
    plain: Annotated[bool, typer.Option("--plain", help="Execute nothing, and write a file without flags.")] = False,
) -> Result:
    """Write an experiment file for a script.

    Executes `python train.py --help` to find the script's flags (`--cfg job` for Hydra), and nothing else without
    --try. Words after the script stay in the command: `plat init train.py -- fit --lr 0.1`.
    """
    made = make_first_file(script, out, plain, python, seconds if tries else 0.0, words or ())
    data = {
        "file": str(made.path),
        "executed": made.executed,
        "failure": made.failure,
        "used": [one.placeholder for one in made.used],
        "left": [flag.name for flag in made.left],
        "to_fill_in": [one.placeholder for one in made.used if one.must_be_filled_in],
        "trial": made.trial and asdict(made.trial),
        "next": [f"plat plan {shlex.quote(shown(made.path))}", f"plat sweep {shlex.quote(shown(made.path))}"],
    }
    return Result(data, fitted("\n".join(_lines(made))))


def _lines(made: FirstFile) -> list[str]:
    file = shlex.quote(shown(made.path))
    lines = [f"executed in {shown(made.script.folder)}: {made.executed}"] if made.executed else ["executed nothing"]
    if made.failure:
        lines.append(f"its flags are unknown: {made.failure}")
    of_all = f"{len(made.used)} of {counted(len(made.used) + len(made.left), 'flag')}"
    lines.append(f"wrote {shown(made.path)}, whose command passes " + (of_all if made.used else "no flags"))
    to_fill_in = [one.placeholder for one in made.used if one.must_be_filled_in]
    if to_fill_in:
        lines.append(f"The script requires a value for: {', '.join(to_fill_in)}. Write it into {file}.")
    if made.trial is not None:
        lines += _of_trial(made.trial)
    elif not made.script.logs:
        lines.append(HOW_TO_LOG)
    return [*lines, "next:", f"  plat plan {file}", f"  plat sweep {file}"]


def _of_trial(trial: Trial) -> list[str]:
    end = "was ended" if trial.code is None else f"ended with exit code {trial.code}"
    lines = [f"tried: the script {end} after {trial.seconds:.1f} s"]
    if trial.metrics is None:
        lines += ["no metric was read; its last lines:", *(f"  {line}" for line in trial.lines)]
        if trial.code:
            return [*lines, "mend this, or fill in what the script needs: `plat sweep FILE --first 1` tries it again"]
        if trial.shared:
            lines.append(f"it has written {trial.shared}, which all runs would share: try script.own_folder: true")
        return [*lines, "let it run longer with --seconds, or describe its lines with script.patterns"]
    by = f"script.metrics: {trial.metrics}" if trial.metrics else "plat, without a setting,"
    steps = f"steps {trial.steps[0]} to {trial.steps[1]}"
    return [*lines, f"{by} reads {', '.join(trial.names)} ({steps})"]
