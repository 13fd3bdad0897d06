"""`plat why`: state, attempts and identity of a run, and the run most similar to it. Changes nothing."""

from __future__ import annotations

from typing import Any

from plat.app.entries import goes_on, standing
from plat.app.home_runs import command_of, find_run, home_to_read, run_name
from plat.app.standing import meaning
from plat.cli.common import HomeOption, RunArgument, verb
from plat.cli.result import Result
from plat.cli.schemas.runs import WhyData
from plat.cli.screen.table import fitted, table
from plat.runner.failures import AFTER_OOM
from plat.spec.identity.run_identity import named_code
from plat.store.many_runs import nearest
from plat.store.run_directory.artifact_files import Artifact, artifacts_of
from plat.store.run_directory.numerics import numerics_of_run
from plat.store.run_directory.own_files import Damage
from plat.store.run_directory.paths import AttemptPaths, RunPaths
from plat.store.run_directory.run_files import load_meta, read_attempt_meta, read_outcome, unreadable
from plat.store.run_directory.state import RunState
from plat.units import counted, duration, size
from plat.words.states import RunStatus

IDENTITY = ("identity_scheme", "trainer", "trainer_version", "fingerprint")  # of meta.json
LONGEST = 60  # characters of a value
MOST_FILES = 20  # files of code that are named


@verb(WhyData)
def why(run: RunArgument, home: HomeOption = None) -> Result:
    """Explain a run: its state and identity.

    Shows its attempts, what its identity is made of, and how it differs from the nearest run of this home.
    """
    place = home_to_read(home)
    paths = find_run(place, run)
    meta, state = load_meta(paths) or {}, standing(place, [paths.id])[paths.id]
    problem = _damage(paths)
    near, difference = nearest(place, paths)
    attempts = [_attempt_facts(attempt) for attempt in paths.attempts()]
    files = {name: {**vars(kept), "path": str(kept.path)} for name, kept in _artifacts(paths).items()}
    wrong = {"damage": str(problem or ""), "fix": problem.fix if problem else ""}
    facts = {"id": paths.id, "meta": meta, "state": vars(state), **wrong, "attempts": attempts}
    other = {"nearest": near.id if near else None, "difference": difference}
    lines = [fitted("\n".join(_lines(paths, meta, state, problem, attempts)))]
    if not meta.get("experiments") and state.state not in (RunStatus.DONE, RunStatus.RUNNING, RunStatus.QUEUED):
        lines.append(f"  go on      {command_of(place, meta)}")  # in one line, to be copied and pasted
    if near is not None:
        says, shown = _difference_words(meta, load_meta(near) or {}, difference)
        lines.append(fitted(f"  nearest    {run_name(near)} {says}"))
        rows = [(key, _cut(here), _cut(there)) for key, (here, there) in shown.items()]
        lines += [table(("key", "here", "there"), rows, indent=" " * 13)] if rows else []
    return Result({**facts, "artifacts": files, **other}, "\n".join(lines))


def _lines(
    paths: RunPaths, meta: dict[str, Any], state: RunState, problem: Damage | None, attempts: list[dict[str, Any]]
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
        *([f"  damaged    {problem}", f"  fix        {problem.fix}"] if problem else []),
        *(_attempt_line(attempt, _without_end(state, is_newest=attempt is attempts[-1])) for attempt in attempts),
        *([f"  computed   {computed}"] if computed else []),
        *(
            f"  artifact   {name}: {counted(kept.files, 'file')}, {size(kept.bytes)}, in {kept.path}"
            for name, kept in _artifacts(paths).items()
        ),
        f"  identity   its config (config.yaml), trainer {trainer}" + "".join(f", {fact}" for fact in facts),
        f"  asked by   {asked}",
    ]


def _difference_words(
    meta: dict[str, Any], other: dict[str, Any], difference: dict[str, tuple[Any, Any]]
) -> tuple[str, dict[str, tuple[Any, Any]]]:
    """Describe how two runs differ, and return the differing values: of the configs, else of other facts in the ids."""
    if difference:
        return f"differs in {counted(len(difference), 'value')}:", difference
    here, there = _identity(meta), _identity(other)
    both = {key: (here.get(key), there.get(key)) for key in sorted(here.keys() | there.keys())}
    rest = {key: values for key, values in both.items() if values[0] != values[1]}
    if rest:
        return f"has the same config, but its id differs because of {counted(len(rest), 'other fact')}:", rest
    return "has the same config, but meta.json does not record why its id differs", {}


def _identity(meta: dict[str, Any]) -> dict[str, Any]:
    """Return the identity in meta.json without the config, by dotted key; plug-ins by the key that names them."""
    from plat.store.mlflow.run_tags import flatten

    identity = meta.get("identity") or {}
    facts = {key: meta.get(key) for key in IDENTITY}
    return flatten({**facts, "plugins": dict(identity.get("plugins", ())), "left_out": identity.get("left_out")})


def _cut(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}..."


def _state_words(state: RunState, attempts: list[dict[str, Any]], verb: str) -> str:
    """Return the meaning of the state, its reason unless an attempt repeats it, and the message of a starting run."""
    said = ["", *(str(attempt.get("reason") or "") for attempt in attempts)]
    more = [*([state.reason] if state.reason not in said else []), *([state.starting] if state.starting else [])]
    return meaning(state.state, verb) + (f" ({'; '.join(more)})" if more else "")


def _attempt_facts(attempt: AttemptPaths) -> dict[str, Any]:
    """Return an attempt's outcome, its numerics, and the settings reduced after an earlier out-of-memory failure."""
    started = read_attempt_meta(attempt)
    facts = {key: started[key] for key in (AFTER_OOM, "numerics") if started.get(key)}
    return {"attempt": attempt.number, **facts, **(read_outcome(attempt) or {})}


def _without_end(state: RunState, *, is_newest: bool) -> str:
    """Describe the end of an attempt that has recorded none."""
    if is_newest and state.state == RunStatus.RUNNING:
        return "is active"
    if is_newest and state.state in (RunStatus.QUEUED, RunStatus.UNKNOWN):
        return "has not recorded an end (killed, or still running)"
    return "did not record its end (killed)"


def _attempt_line(attempt: dict[str, Any], without_end: str) -> str:
    ended = attempt.get("outcome", without_end)
    facts = [
        f"step {attempt['step']}" if attempt.get("step") is not None else "",
        str(attempt.get("reason") or ""),
        str((attempt.get("summary") or {}).get("notes") or ""),
        duration(attempt["wall"]) if attempt.get("wall") is not None else "",
        *(f"{key} {value} to need less memory" for key, value in attempt.get(AFTER_OOM, {}).items()),
    ]
    return f"  attempt {attempt['attempt']:<2} {ended}" + "".join(f" · {fact}" for fact in facts if fact)


def _artifacts(paths: RunPaths) -> dict[str, Artifact]:
    """Return the artifacts of the newest attempt, by name."""
    attempts = paths.attempts()
    return artifacts_of(attempts[-1]) if attempts else {}


def _damage(paths: RunPaths) -> Damage | None:
    """Return the first damage of the run's files; None if there is none or the run was never started."""
    from plat.store.mlflow.run_record import read_record

    record = read_record(paths)
    return unreadable(paths) if record is None else record.damage


def _code_words(meta: dict[str, Any]) -> list[str]:
    """Describe the code of plug-ins without an installed release: `code of trainer 3f2a... (train.py, data.py)`."""
    files, named = meta.get("plugin_code") or {}, named_code(meta.get("identity") or {})
    return [f"code of {key} {code} ({_listed(sorted(files.get(key, ())))})" for key, code in named.items()]


def _listed(files: list[str]) -> str:
    more = f", and {len(files) - MOST_FILES} more" if len(files) > MOST_FILES else ""
    return f"{', '.join(files[:MOST_FILES])}{more}"


def _fingerprint_words(fingerprint: dict[str, Any]) -> list[str]:
    """Return the trainer's facts about a run in words (`environment 1`): long hashes are cut, empty facts left out."""
    from plat.store.mlflow.run_tags import flatten

    return [
        f"{key.replace('.', ' ')} {value[:12] if isinstance(value, str) and len(value) > 16 else value}"
        for key, value in flatten(fingerprint).items()
        if value not in (None, "", {}, [])
    ]
