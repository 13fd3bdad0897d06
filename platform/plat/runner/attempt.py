"""One attempt of a run: train under the run's lease and record the outcome."""

from __future__ import annotations

import json
import time
import traceback
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from plat.characters import writable
from plat.errors import PlatError, RunError
from plat.plugins.plugin_code import FILES, read_files_again
from plat.processes.own_process import Stop
from plat.processes.process_tree import contained
from plat.processes.usage import Meter
from plat.runner import failures
from plat.runner.failures import classify
from plat.runner.training import train, typed_config
from plat.spec.composition.schema import select
from plat.spec.composition.trainer_calls import iterations_of
from plat.spec.identity.run_identity import changed_code, refuse, snapshot
from plat.store.disk.durable import append_line, create, to_checked_json
from plat.store.home import Home
from plat.store.run_directory.attempts import requested_end
from plat.store.run_directory.damage import CODE_CHANGED
from plat.store.run_directory.history import covered_attempts
from plat.store.run_directory.paths import AttemptPaths, RunPaths
from plat.store.run_directory.run_files import gpus_of, headline_of, nodes_of, read_outcome
from plat.store.run_directory.run_io import FileRunIO, read_facts
from plat.trainer.api import Trainer
from plat.trainer.finding import find_trainer
from plat.trainer.heartbeat import beating
from plat.words.outcomes import INTERRUPTED, failed, is_result
from plat.words.usage import total_usage, usage_of


@dataclass(frozen=True)
class Attempt:
    """The inputs of an attempt. `config` and `meta` are the content of the run's config.yaml and meta.json."""

    home: Home
    run: RunPaths
    paths: AttemptPaths
    config: dict[str, Any]
    meta: dict[str, Any]
    threads: int


@dataclass(frozen=True)
class End:
    """The outcome of an attempt. `error`: the full text of the error behind it, or None."""

    outcome: str
    reason: str = ""
    error: str | None = None


def perform(attempt: Attempt, stop: Stop) -> str:
    """Train, write outcome.json, publish a result if there is one, and return the outcome.

    An exception of the trainer becomes an outcome; its traceback is printed. A full disk loses nothing recorded: the
    outcome is `failed:disk`, and the next attempt resumes from the newest checkpoint. Raises OSError if the outcome or
    the result cannot be written.
    """
    meter = Meter()
    io: FileRunIO | None = None
    summary: dict[str, Any] = {}
    try:
        cache, headline = attempt.home.cache, headline_of(attempt.meta)
        io = FileRunIO(attempt.run, attempt.paths, cache, lambda: stop.asked, headline)
        end = _train(attempt, io, summary, stop)
    except KeyboardInterrupt:
        end = End(INTERRUPTED, "interrupted before it could save")
    except BaseException as error:
        traceback.print_exc()
        outcome, reason = classify(error)
        text = error.render() if isinstance(error, PlatError) else f"{type(error).__name__}: {error}"
        end = End(outcome, writable(reason), writable(text))
    end = _after_request(end, attempt.run, stop)
    usage = usage_of(meter.facts(), gpus_of(attempt.meta), nodes_of(attempt.meta))
    record = {
        "run": attempt.run.id,
        "attempt": attempt.paths.number,
        "outcome": end.outcome,
        "reason": end.reason,
        "step": io.step if io else None,
        "success": io.success if io else None,
        "wall": usage["seconds"],
        "error": end.error,
        "summary": {**read_facts(attempt.paths), **summary},
        "time": time.time(),
        "events": io.events if io else None,
        "usage": usage,
        **meter.hardware(),
    }
    try:
        if io is not None:
            io.close()
        create(attempt.paths.outcome, to_checked_json(record), sync=False)  # lost in a power cut: counts as vanished
        if is_result(end.outcome):
            publish(attempt, record, restored_step=(io.restored_step if io else None) or 0)
    except OSError:
        traceback.print_exc()
        raise
    return end.outcome


def _train(attempt: Attempt, io: FileRunIO, summary: dict[str, Any], stop: Stop) -> End:
    """Run the trainer. Facts that the record needs even after a failure go into `summary` as soon as they are known."""
    name = attempt.meta["trainer"]
    spec = find_trainer(name)
    io.code = snapshot(attempt.home.code, name, attempt.config, attempt.meta.get("identity") or {})
    refuse(_changed(attempt, spec, io.code))
    config, smaller = failures.fitted(spec, typed_config(attempt.config, spec), attempt.run)
    if smaller:
        failures.note(attempt.paths, smaller)
        print(f"an earlier attempt ran out of memory: now {smaller}", flush=True)
        summary[failures.AFTER_OOM] = smaller
    with contained(attempt.run.root), beating(attempt.paths.alive.touch):
        ended = train(attempt.home, config, spec, attempt.threads, io)
    summary |= _plain(ended.summary, name)
    _note_changes(attempt, spec, io.code, summary)
    if ended.kind != INTERRUPTED and not is_result(ended.kind):
        raise RunError(f"the trainer returned the unknown outcome {ended.kind!r}", where=name)
    return End(ended.kind, stop.reason if ended.kind == INTERRUPTED else "")


def _changed(attempt: Attempt, spec: Trainer, copy: Path | None) -> tuple[str, str] | None:
    """Return (config key, what is not as it was planned), or None. `copy`: of the files that the config names."""
    if copy is None:
        return changed_code(attempt.meta, attempt.config)
    files = spec.snapshots.changed_in(copy)
    return (FILES, ", ".join(files[:3])) if files else None


def _note_changes(attempt: Attempt, spec: Trainer, copy: Path | None, summary: dict[str, Any]) -> None:
    """Add to the summary that code changed meanwhile, or that the script has written into its copy."""
    read_files_again()
    try:
        key, files = _changed(attempt, spec, copy) or ("", "")
    except PlatError as error:  # it is gone
        key, files = FILES, error.what
    notes = [f"{files} changed while the run executed, which may have used either version"] if key else []
    if key == FILES:
        summary[CODE_CHANGED], notes = files, []
    if copy is not None and (left := spec.snapshots.left_in(copy)):
        notes.append(f"the script has written {left[0]}, beside the copy of its code and not beside the original")
    if notes:
        print(f"note: {'; '.join(notes)}", flush=True)
        summary["notes"] = "; ".join(filter(None, [*notes, summary.get("notes")]))


def _plain(summary: dict[str, Any], trainer: str) -> dict[str, Any]:
    """Return the summary of a trainer's outcome as JSON data. Raises RunError if JSON cannot hold it."""
    try:
        text = json.dumps(summary, ensure_ascii=False)
        text.encode()
        plain: dict[str, Any] = json.loads(text)
        return plain
    except (TypeError, ValueError) as error:
        raise RunError(
            f"the summary that the trainer {trainer!r} returned cannot be saved as JSON: {error}",
            where=trainer,
            fix="put numbers, texts, lists and dicts into it; `float(x)` makes a number of an array's element",
        ) from error


def _after_request(end: End, run: RunPaths, stop: Stop) -> End:
    """Correct the outcome of an attempt that ended because of a request: interrupted, cancelled or pruned."""
    if stop.asked and end.outcome == failed("node"):  # the scheduler killed the run's processes before the run saved
        reason = "asked to stop, and its nodes or processes were gone before it could save"
        end = End(INTERRUPTED, reason, end.error)
    if end.outcome == INTERRUPTED and run.cancel.exists():
        return End(*requested_end(run), end.error)
    return end


# Write result.json of a run, and its line in the history from which times are estimated.


def publish(attempt: Attempt, record: dict[str, Any], restored_step: int) -> None:
    """Write result.json, the last file of a run, unless it exists; then add the measured time to the history.

    record         the content of the attempt's outcome.json
    restored_step  the step of the checkpoint that the attempt resumed from, 0 without one
    """
    run, meta = attempt.run, attempt.meta
    attempts = run.attempts()
    outcomes = [read_outcome(past) or {} for past in attempts]
    kept = {key: record[key] for key in ("outcome", "reason", "step", "success", "summary", "time")}
    result = {
        "id": run.id,
        "name": meta["name"],
        **kept,
        "iterations": meta["iterations"] if "iterations" in meta else iterations_of(meta["trainer"], attempt.config),
        "attempt": attempt.paths.number,
        "attempts": [past.number for past in attempts],
        "events": _events(attempt, record),
        "wall": round(sum(outcome.get("wall") or 0.0 for outcome in outcomes), 3),
        "usage": total_usage([outcome.get("usage") or {} for outcome in outcomes]),
    }
    if create(run.result, to_checked_json(result)):
        line = _history_line(attempt.config, meta, record, restored_step)
        append_line(attempt.home.history, {**line, "spent": result["wall"]})


def _events(attempt: Attempt, record: dict[str, Any]) -> dict[str, int]:
    """Return the number of events that each counted attempt must have, so that a lost end is noticed."""
    counts = {past.number: coverage.events for past, coverage in covered_attempts(attempt.run)}
    counts[attempt.paths.number] = record["events"]
    return {str(number): count for number, count in counts.items() if count is not None}


def _history_line(config: dict[str, Any], meta: dict[str, Any], record: dict[str, Any], start: int) -> dict[str, Any]:
    """Return the line from which `plat plan` estimates times: the work of the run and its duration."""
    return {
        "time": record["time"],
        "run": meta["id"],
        "trainer": meta["trainer"],
        "cost": cost_facts(config, find_trainer(meta["trainer"])),
        "scale": meta.get("scale"),
        "iterations": (record["step"] or 0) - start,  # done in `wall` seconds
        "wall": record["wall"],
        "gpus": gpus_of(meta),
        "usage": record["usage"],
        "peak_mb": record["peak_mb"],
        "outcome": record["outcome"],
    }


def cost_facts(config: Mapping[str, Any], trainer: Trainer) -> dict[str, Any]:
    """Return the values of the trainer's cost keys: dotted config key -> value, None if it is absent."""
    return {key: select(config, key) for key in trainer.cost_keys}
