"""Verbs that look at runs and change nothing: `plat status`, `plat logs`, `plat why`."""

from __future__ import annotations

import time
from collections import Counter
from typing import Annotated, Any

import typer

from plat.cli.common import (
    Arguments,
    HomeOption,
    JsonOption,
    RunArgument,
    VerboseOption,
    aligned,
    duration,
    find_run,
    load_experiments,
    print_json,
    run_name,
)
from plat.errors import HomeError, SpecError
from plat.store.durable import read_json
from plat.store.home import AttemptPaths, Home, RunPaths
from plat.store.spool import Event, read_events

SAYS = {
    "done": "it has a result; `plat sweep` will not do it again",
    "running": "a live process holds its lease",
    "unknown": "a lease is held from elsewhere and cannot be checked from here; `plat sweep --steal` takes it over",
    "failed": "its last attempt failed; `plat retry` tries again",
    "interrupted": "its last attempt ended early; the next `plat sweep` goes on from its newest checkpoint",
    "missing": "it was never started",
}
MEASURES = {
    "val/success": "success",
    "mi/first_turn/retrieval_acc": "retrieval accuracy",
}  # in the lines of `plat logs`


def status(
    arguments: Arguments = None, home: HomeOption = None, as_json: JsonOption = False, verbose: VerboseOption = False
) -> int:
    """How far the runs are.

    Those of the named files, or all of this home. Exit code 3 when some failed.
    """
    from plat.store.run_state import run_state

    place = Home.find(home)
    wanted: dict[str, tuple[str, dict[str, Any]]] = {}  # id -> name, axes
    experiments = load_experiments(arguments, required=False)
    for experiment in experiments:
        wanted |= {run.id: (run.name, run.axes) for run in experiment.runs}
    if not experiments and place.runs.is_dir():
        for folder in sorted(place.runs.iterdir()):
            meta = read_json(folder / "meta.json") or {}
            wanted[folder.name] = (meta.get("name", folder.name), meta.get("axes", {}))
    states = {run_id: run_state(place.run(run_id)) for run_id in wanted}
    if as_json:
        print_json(
            {
                "home": str(place.root),
                "runs": [
                    {"id": run_id, "name": name, "axes": axes, **vars(states[run_id])}
                    for run_id, (name, axes) in wanted.items()
                ],
            }
        )
    else:
        for experiment in experiments:
            print(f"{experiment.name}: {_counts([states[run.id].state for run in experiment.runs])}")
        if not experiments:
            print(f"{place.root}: {_counts([found.state for found in states.values()]) or 'no runs'}")
        rows = [
            (
                name,
                found.state,
                found.outcome or found.reason,
                _progress(found),
                _percent(found.success),
                duration(found.age),
            )
            for run_id, (name, _) in wanted.items()
            if (found := states[run_id]).state not in ("done", "missing") or verbose
        ]
        if rows:
            print(aligned([("run", "state", "outcome", "step", "success", "last sign"), *rows]))
    return 3 if any(found.state == "failed" for found in states.values()) else 0


def _counts(states: list[str]) -> str:
    from plat.store.run_state import STATES

    counts = Counter(states)
    parts = [f"{counts[state]} {state}" for state in STATES if counts[state]]
    return ", ".join(parts) + (f" of {len(states)}" if parts else "")


def _progress(found: Any) -> str:
    if found.step is None:
        return ""
    return f"{found.step}/{found.iterations}" if found.iterations else str(found.step)


def _percent(value: float | None) -> str:
    return "" if value is None else f"{100 * value:.1f} %"


def logs(
    run: RunArgument,
    follow: Annotated[bool, typer.Option("-f", "--follow", help="Go on printing until the attempt ends.")] = False,
    attempt: Annotated[int | None, typer.Option("--attempt", metavar="N", help="Which attempt; the newest.")] = None,
    home: HomeOption = None,
    verbose: VerboseOption = False,
) -> int:
    """Print what a run wrote to its log.

    A healthy run writes nothing there: then its evaluations so far, and where the log is.
    """
    paths = find_run(Home.find(home), run)
    chosen = _attempt(paths, attempt)
    position, offset, shown = 0, 0, 0
    while True:
        ended = chosen.outcome.exists()  # looked at before reading: what was written until then is printed
        if chosen.log.exists():
            with open(chosen.log, encoding="utf-8", errors="replace") as file:
                file.seek(position)
                print(file.read(), end="", flush=True)
                position = file.tell()
        if not position or shown:
            events, offset = read_events(chosen.events, offset)
            lines = [line for event in events if (line := _evaluation(event))]
            if not shown:
                print(f"no output in {chosen.log}; what it measured so far:", flush=True)
            print("".join(line + "\n" for line in lines), end="", flush=True)
            shown += 1 + len(lines)
        if ended or not follow:
            if shown == 1:
                print(f"  no evaluation yet; `plat why {paths.id[:8]}` says how the run stands")
            return 0
        time.sleep(0.5)


def _evaluation(event: Event) -> str:
    """One line about an evaluation; "" for any other event."""
    facts = [f"{says} {100 * event.metrics[key]:.1f} %" for key, says in MEASURES.items() if key in event.metrics]
    return f"  step {event.step:<5} {' · '.join(facts)}" if "val/success" in event.metrics else ""


def _attempt(paths: RunPaths, number: int | None) -> AttemptPaths:
    known = paths.attempts()
    if not known:
        raise SpecError(f"{run_name(paths)} was never started", where=str(paths.root), mend="`plat sweep` starts it")
    if number is None:
        return known[-1]
    for attempt in known:
        if attempt.number == number:
            return attempt
    raise SpecError(
        f"{run_name(paths)} has no attempt {number}", mend=f"one of: {', '.join(str(a.number) for a in known)}"
    )


def why(run: RunArgument, home: HomeOption = None, as_json: JsonOption = False, verbose: VerboseOption = False) -> int:
    """Explain a run: its state and identity.

    Its attempts, what its identity is made of, and how it differs from the nearest run of this home.
    """
    from plat.store.run_state import run_state

    place = Home.find(home)
    paths = find_run(place, run)
    meta, found = read_json(paths.meta) or {}, run_state(paths)
    near, difference = _nearest(place, paths)
    attempts = [(attempt.number, read_json(attempt.outcome) or {}) for attempt in paths.attempts()]
    if as_json:
        print_json(
            {
                "id": paths.id,
                "meta": meta,
                "state": vars(found),
                "attempts": [{"attempt": number, **outcome} for number, outcome in attempts],
                "nearest": near.id if near else None,
                "difference": difference,
            }
        )
        return 0
    print(f"{meta.get('name', paths.id)}\n  id         {paths.id}\n  directory  {paths.root}")
    print(f"  state      {found.state}: {SAYS.get(found.state, '')}")
    for number, outcome in attempts:
        ended = outcome.get("outcome", "did not say how it ended (killed, or still going)")
        facts = [f"step {outcome['step']}" if outcome.get("step") is not None else "", str(outcome.get("reason") or "")]
        facts.append(duration(outcome["wall"]) if outcome.get("wall") is not None else "")
        print(f"  attempt {number:<2} {ended}" + "".join(f" · {fact}" for fact in facts if fact))
    trainer = f"{meta.get('trainer', '?')} {meta.get('trainer_version', '')}".strip()
    asked = ", ".join(meta.get("experiments", ())) or "no file (`plat run`)"
    print(f"  identity   its config (config.yaml), trainer {trainer}, and {meta.get('fingerprint') or 'nothing else'}")
    print(f"  asked by   {asked}")
    if near is not None:
        print(f"  nearest    {run_name(near)} differs in {len(difference)} value{'s' if len(difference) != 1 else ''}:")
        print(
            aligned([(key, f"{here!r}", "there", f"{there!r}") for key, (here, there) in difference.items()], " " * 13)
        )
    return 0


def _nearest(home: Home, paths: RunPaths) -> tuple[RunPaths | None, dict[str, tuple[Any, Any]]]:
    """The other run of this home whose config differs in the fewest values, with those values (here, there)."""
    mine = _flat_config(paths)
    best: tuple[RunPaths | None, dict[str, tuple[Any, Any]]] = (None, {})
    for folder in sorted(home.runs.iterdir()) if home.runs.is_dir() else ():
        if folder.name == paths.id:
            continue
        other = _flat_config(home.run(folder.name))
        if not other:
            continue
        keys = [key for key in sorted(mine.keys() | other.keys()) if mine.get(key) != other.get(key)]
        if best[0] is None or len(keys) < len(best[1]):
            best = (home.run(folder.name), {key: (mine.get(key), other.get(key)) for key in keys})
    return best


def _flat_config(paths: RunPaths) -> dict[str, Any]:
    """A resolved config as dotted keys; empty when it cannot be read."""
    from plat.store.record import flatten
    from plat.store.run_files import read_config

    try:
        return flatten(read_config(paths))
    except HomeError:
        return {}
