"""`plat why`: a run's state, its attempts, what its identity is made of, and the run most like it. Changes nothing."""

from __future__ import annotations

from typing import Any

from plat.cli.common import (
    HomeOption,
    JsonOption,
    RunArgument,
    find_run,
    print_json,
    run_name,
)
from plat.cli.entries import goes_on, standing
from plat.cli.run_command import command_of
from plat.cli.settings import verb
from plat.cli.standing import meaning
from plat.cli.table import fitted, table
from plat.runner.memory import AFTER_OOM
from plat.store.home import Home
from plat.store.index.configs import nearest
from plat.store.run_directory.artifact import Artifact, artifacts_of
from plat.store.run_directory.files import load_meta, mend_of, read_attempt_meta, read_outcome, unreadable
from plat.store.run_directory.numerics import numerics_of_run
from plat.store.run_directory.paths import AttemptPaths, RunPaths
from plat.store.run_directory.state import RunState
from plat.trainer.plugin_code import CODE
from plat.units import counted, duration, size

IDENTITY = ("identity_scheme", "trainer", "trainer_version", "fingerprint")  # of meta.json
LONGEST = 60  # characters of a value


@verb()
def why(run: RunArgument, home: HomeOption = None, as_json: JsonOption = False) -> int:
    """Explain a run: its state and identity.

    Its attempts, what its identity is made of, and how it differs from the nearest run of this home.
    """
    place = Home.find(home)
    paths = find_run(place, run)
    meta, state = load_meta(paths) or {}, standing(place, [paths.id])[paths.id]
    problem = _damage(paths)
    near, difference = nearest(place, paths)
    attempts = [_attempt_facts(attempt) for attempt in paths.attempts()]
    artifacts = artifacts_of(paths.attempts()[-1]) if attempts else {}
    if as_json:
        print_json(
            {
                "id": paths.id,
                "meta": meta,
                "state": vars(state),
                "damage": problem,
                "attempts": attempts,
                "artifacts": {name: {**vars(kept), "path": str(kept.path)} for name, kept in artifacts.items()},
                "nearest": near.id if near else None,
                "difference": difference,
            }
        )
        return 0
    print(fitted("\n".join(_lines(paths, meta, state, problem, attempts, artifacts))))
    if not meta.get("experiments") and state.state not in ("done", "running", "queued"):
        print(f"  go on      {command_of(place, meta)}")  # in one line: it is copied and pasted
    if near is not None:
        says, shown = _difference_words(meta, load_meta(near) or {}, difference)
        print(fitted(f"  nearest    {run_name(near)} {says}"))
        rows = [(key, _cut(here), _cut(there)) for key, (here, there) in shown.items()]
        if rows:
            print(table(("key", "here", "there"), rows, indent=" " * 13))
    return 0


def _lines(
    paths: RunPaths,
    meta: dict[str, Any],
    state: RunState,
    problem: str,
    attempts: list[dict[str, Any]],
    artifacts: dict[str, Artifact],
) -> list[str]:
    trainer = f"{meta.get('trainer', '?')} {meta.get('trainer_version', '')}".strip()
    computed = numerics_of_run(attempt.get("numerics") or {} for attempt in attempts)
    facts = [*_fingerprint_words(meta.get("fingerprint") or {}), *_code_words(meta)]
    verb = goes_on(meta.get("experiments") or (), meta.get("studies") or ())
    asked = ", ".join(meta.get("experiments", ())) or "no file (`plat run`)"
    return [
        str(meta.get("name", paths.id)),
        f"  id         {paths.id}",
        f"  directory  {paths.root}",
        f"  state      {state.state}: {_state_words(state, attempts, verb)}",
        *([f"  damaged    {problem}", f"  fix        {mend_of(problem)}"] if problem else []),
        *(_attempt_line(attempt, _without_end(state, is_newest=attempt is attempts[-1])) for attempt in attempts),
        *([f"  computed   {computed}"] if computed else []),
        *(f"  artifact   {name}: {_artifact_words(kept)}" for name, kept in artifacts.items()),
        f"  identity   its config (config.yaml), trainer {trainer}" + "".join(f", {fact}" for fact in facts),
        f"  asked by   {asked}",
    ]


def _difference_words(
    meta: dict[str, Any], other: dict[str, Any], difference: dict[str, tuple[Any, Any]]
) -> tuple[str, dict[str, tuple[Any, Any]]]:
    """In what a run differs from another, in words, and the values: those of the configs, else those of what else is
    part of their ids."""
    if difference:
        return f"differs in {counted(len(difference), 'value')}:", difference
    here, there = _identity(meta), _identity(other)
    rest = {
        key: (here.get(key), there.get(key))
        for key in sorted(here.keys() | there.keys())
        if here.get(key) != there.get(key)
    }
    if rest:
        return f"has the same config; its id is another because of {counted(len(rest), 'fact')}:", rest
    return "has the same config, and what meta.json records does not say why its id is another", {}


def _identity(meta: dict[str, Any]) -> dict[str, Any]:
    """What meta.json says of the identity besides the config, by dotted key; plug-ins by the key that names them."""
    from plat.store.mlflow.spelling import flatten

    identity = meta.get("identity") or {}
    facts = {key: meta.get(key) for key in IDENTITY}
    return flatten({**facts, "plugins": dict(identity.get("plugins", ())), "left_out": identity.get("left_out")})


def _cut(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}..."


def _state_words(state: RunState, attempts: list[dict[str, Any]], verb: str) -> str:
    """What the state means, its reason where no attempt says the same (where it stands in a scheduler's queue), and
    what a run that is starting does."""
    said = ["", *(str(attempt.get("reason") or "") for attempt in attempts)]
    more = [*([state.reason] if state.reason not in said else []), *([state.starting] if state.starting else [])]
    return meaning(state.state, verb) + (f" ({'; '.join(more)})" if more else "")


def _attempt_facts(attempt: AttemptPaths) -> dict[str, Any]:
    """What an attempt recorded at its end, how it computed, and what it had made smaller because an earlier one ran out
    of memory."""
    started = read_attempt_meta(attempt)
    facts = {key: started[key] for key in (AFTER_OOM, "numerics") if started.get(key)}
    return {"attempt": attempt.number, **facts, **(read_outcome(attempt) or {})}


def _without_end(state: RunState, *, is_newest: bool) -> str:
    """What to say of an attempt that has not recorded how it ended."""
    if is_newest and state.state == "running":
        return "goes on"
    if is_newest and state.state in ("queued", "unknown"):
        return "has not said how it ended (killed, or still going)"
    return "did not say how it ended (killed)"


def _attempt_line(attempt: dict[str, Any], without_end: str) -> str:
    ended = attempt.get("outcome", without_end)
    facts = [
        f"step {attempt['step']}" if attempt.get("step") is not None else "",
        str(attempt.get("reason") or ""),
        duration(attempt["wall"]) if attempt.get("wall") is not None else "",
        *(f"{key} {value} to need less memory" for key, value in attempt.get(AFTER_OOM, {}).items()),
    ]
    return f"  attempt {attempt['attempt']:<2} {ended}" + "".join(f" · {fact}" for fact in facts if fact)


def _artifact_words(kept: Artifact) -> str:
    return f"{counted(kept.files, 'file')}, {size(kept.bytes)}, in {kept.path}"


def _damage(paths: RunPaths) -> str:
    """What is wrong with the files of the run, in one line; "" when nothing is, or when it was never started."""
    from plat.store.mlflow.record import read_record

    record = read_record(paths)
    return unreadable(paths) if record is None else record.damage


def _code_words(meta: dict[str, Any]) -> list[str]:
    """The code of the plug-ins that are no installed release: `code of trainer 3f2a... (train.py, data.py)`."""
    named = {key: fact for key, fact in (meta.get("identity") or {}).get("plugins", ()) if fact.startswith(CODE)}
    files = meta.get("plugin_code") or {}
    return [
        f"code of {key} {fact.removeprefix(CODE)} ({', '.join(sorted(files.get(key, ())))})"
        for key, fact in named.items()
    ]


def _fingerprint_words(fingerprint: dict[str, Any]) -> list[str]:
    """The trainer's facts about a run in words (`environment 1`): long hashes are cut, empty facts left out."""
    from plat.store.mlflow.spelling import flatten

    return [
        f"{key.replace('.', ' ')} {value[:12] if isinstance(value, str) and len(value) > 16 else value}"
        for key, value in flatten(fingerprint).items()
        if value not in (None, "", {}, [])
    ]
