"""`plat logs`: print a run's log, or its evaluations if that is empty. Changes nothing."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from plat.app.home_runs import find_run, home_to_read, run_name
from plat.characters import as_lines
from plat.cli.common import HomeOption, RunArgument, on_terminal, verb
from plat.cli.result import Result, settings
from plat.cli.schemas.runs import LogsData
from plat.errors import SpecError
from plat.plain_files import open_regular
from plat.store.run_directory.paths import AttemptPaths, RunPaths
from plat.store.run_directory.run_files import headline_of, load_meta
from plat.store.run_directory.spool import Event, read_events
from plat.trainer.finding import shown_metrics
from plat.units import percent


@verb(LogsData)
def logs(
    run: RunArgument,
    follow: Annotated[bool, typer.Option("-f", "--follow", help="Print new output until the attempt ends.")] = False,
    attempt: Annotated[int | None, typer.Option("--attempt", metavar="N", help="The attempt [the newest].")] = None,
    home: HomeOption = None,
) -> Result:
    """Print the log of a run.

    If the log is empty, as for most healthy runs, prints the evaluations so far and the path of the log. Colours are
    kept only on a terminal without NO_COLOR.
    """
    if follow and settings.json:
        what = "--follow prints what a run says until it ends, which is no JSON"
        raise SpecError(what, where="--follow --json", fix="`plat wait RUN`, then `plat logs RUN --json`")
    paths = find_run(home_to_read(home), run)
    chosen = _attempt(paths, attempt)
    if settings.json:
        return Result(_data(paths, chosen))
    _print(paths, chosen, follow)
    return Result({})


def _data(paths: RunPaths, attempt: AttemptPaths) -> dict[str, Any]:
    events = read_events(attempt.events, 0)[0]
    measured = [{"step": event.step, "metrics": event.metrics} for event in events if event.metrics]
    text = as_lines(_read_on(attempt.log, 0, whole_lines=False)[0], colours=False) if attempt.log.exists() else ""
    return {
        "id": paths.id,
        "attempt": attempt.number,
        "path": str(attempt.log),
        "text": text,
        "evaluations": measured,
    }


def _print(paths: RunPaths, chosen: AttemptPaths, follow: bool) -> None:
    """Print the log, and the evaluations if it is empty; with `follow`, until the attempt ends."""
    meta = load_meta(paths) or {}
    headline, further = headline_of(meta), shown_metrics(meta.get("trainer"))
    colours = on_terminal() and not os.environ.get("NO_COLOR")
    position, offset, shown = 0, 0, 0
    while True:
        ended = chosen.outcome.exists()  # checked before reading, so that everything written before the end is printed
        if chosen.log.exists():
            text, position = _read_on(chosen.log, position, whole_lines=follow and not ended)
            print(as_lines(text, colours=colours), end="", flush=True)
        if not position or shown:
            events, offset = read_events(chosen.events, offset)
            lines = [line for event in events if (line := _evaluation(event, headline, further))]
            if not shown:
                print(f"no output in {chosen.log}; what it measured{'' if ended else ' so far'}:", flush=True)
            print("".join(line + "\n" for line in lines), end="", flush=True)
            shown += 1 + len(lines)
        if ended or not follow:
            if shown == 1:
                print(f"  no evaluation yet; `plat why {paths.id[:8]}` shows the state of the run")
            return
        time.sleep(0.5)


def _read_on(log: Path, position: int, *, whole_lines: bool) -> tuple[str, int]:
    """Return the log's text from byte `position` and the new position; `whole_lines` leaves an unfinished last line."""
    with open_regular(log) as file:
        file.seek(position)
        data = file.read()
    if whole_lines:
        data = data[: data.rfind(b"\n") + 1]
    return data.decode(errors="replace"), position + len(data)


def _evaluation(event: Event, headline: str, further: Mapping[str, str]) -> str:
    """Return one line about an evaluation; "" for any other event."""
    if headline not in event.metrics:
        return ""
    measures = {"success": headline, **further}
    facts = [f"{words} {percent(event.metrics[key])}" for words, key in measures.items() if key in event.metrics]
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
