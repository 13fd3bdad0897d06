"""`plat logs`: print a run's log, its evaluations if that is empty, or a trajectory. Changes nothing."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Annotated

import typer

from plat.app.home_runs import find_run, home_to_read, run_name
from plat.characters import as_lines
from plat.cli.common import HomeOption, RunArgument, on_terminal, verb
from plat.cli.screen.trajectory_text import print_trajectory
from plat.errors import SpecError
from plat.plain_files import open_regular
from plat.store.run_directory.paths import AttemptPaths, RunPaths
from plat.store.run_directory.run_files import headline_of, load_meta
from plat.store.run_directory.spool import Event, read_events
from plat.trainer.api import RETRIEVAL
from plat.units import percent


@verb()
def logs(
    run: RunArgument,
    follow: Annotated[bool, typer.Option("-f", "--follow", help="Print new output until the attempt ends.")] = False,
    attempt: Annotated[int | None, typer.Option("--attempt", metavar="N", help="The attempt [the newest].")] = None,
    trajectories: Annotated[
        bool, typer.Option("--trajectories", help="Print a validation instance: board, reasoning, actions.")
    ] = False,
    prompt: Annotated[int | None, typer.Option("--prompt", metavar="N", help="Which instance, from 0 [0].")] = None,
    step: Annotated[int | None, typer.Option("--step", metavar="N", help="After which step [the newest].")] = None,
    home: HomeOption = None,
) -> int:
    """Print the log of a run.

    If the log is empty, as for most healthy runs, prints the evaluations so far and the path of the log. Colours are
    kept only on a terminal without NO_COLOR. --trajectories needs a run with `eval.trajectories`.
    """
    paths = find_run(home_to_read(home), run)
    if trajectories:
        if follow or attempt is not None:
            fix = "leave one of them out; the trajectories are those of the whole history of the run"
            raise SpecError(f"--trajectories cannot be combined with {'--follow' if follow else '--attempt'}", fix=fix)
        print_trajectory(paths, prompt or 0, step)
        return 0
    if prompt is not None or step is not None:
        raise SpecError(f"{'--step' if prompt is None else '--prompt'} chooses a trajectory", fix="add --trajectories")
    chosen = _attempt(paths, attempt)
    headline = headline_of(load_meta(paths))
    colours = on_terminal() and not os.environ.get("NO_COLOR")
    position, offset, shown = 0, 0, 0
    while True:
        ended = chosen.outcome.exists()  # checked before reading, so that everything written before the end is printed
        if chosen.log.exists():
            text, position = _read_on(chosen.log, position, whole_lines=follow and not ended)
            print(as_lines(text, colours=colours), end="", flush=True)
        if not position or shown:
            events, offset = read_events(chosen.events, offset)
            lines = [line for event in events if (line := _evaluation(event, headline))]
            if not shown:
                print(f"no output in {chosen.log}; what it measured{'' if ended else ' so far'}:", flush=True)
            print("".join(line + "\n" for line in lines), end="", flush=True)
            shown += 1 + len(lines)
        if ended or not follow:
            if shown == 1:
                print(f"  no evaluation yet; `plat why {paths.id[:8]}` shows the state of the run")
            return 0
        time.sleep(0.5)


def _read_on(log: Path, position: int, *, whole_lines: bool) -> tuple[str, int]:
    """Return the log's text from byte `position` and the new position; `whole_lines` leaves an unfinished last line."""
    with open_regular(log) as file:
        file.seek(position)
        data = file.read()
    if whole_lines:
        data = data[: data.rfind(b"\n") + 1]
    return data.decode(errors="replace"), position + len(data)


def _evaluation(event: Event, headline: str) -> str:
    """Return one line about an evaluation; "" for any other event."""
    if headline not in event.metrics:
        return ""
    measures = {headline: "success", RETRIEVAL: "retrieval accuracy"}
    facts = [f"{words} {percent(event.metrics[key])}" for key, words in measures.items() if key in event.metrics]
    return f"  step {event.step:<5} {' · '.join(facts)}"


def _attempt(paths: RunPaths, number: int | None) -> AttemptPaths:
    known = paths.attempts()
    if not known:
        fix = f"`plat why {paths.id[:8]}` says which files ask for it, and how to start it"
        raise SpecError(f"{run_name(paths)} was never started", where=str(paths.root), fix=fix)
    attempt = known[-1] if number is None else next((one for one in known if one.number == number), None)
    if attempt is not None:
        return attempt
    what = f"{run_name(paths)} has no attempt {number}"
    raise SpecError(what, fix=f"one of: {', '.join(str(a.number) for a in known)}")
