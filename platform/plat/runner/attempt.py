"""One attempt of a run: trains under the run's lease, and records how that ended."""

from __future__ import annotations

import json
import time
import traceback
from dataclasses import dataclass
from typing import Any

from plat.errors import PlatError, RunError
from plat.outcomes import INTERRUPTED, is_result
from plat.runner import memory
from plat.runner.failures import classify
from plat.runner.process import Stop
from plat.runner.process_tree import contained
from plat.runner.result import publish
from plat.runner.training import train, typed_config
from plat.spec.run_code import check_code
from plat.store.durable import create, to_checked_json
from plat.store.home import Home
from plat.store.run_directory.attempts import hardware_used, requested_end
from plat.store.run_directory.files import headline_of
from plat.store.run_directory.paths import AttemptPaths, RunPaths
from plat.store.run_directory.run_io import FileRunIO, read_facts
from plat.text import writable
from plat.trainer.api import find_trainer
from plat.trainer.heartbeat import beating


@dataclass(frozen=True)
class Attempt:
    """What an attempt works with. `config` and `meta` are what config.yaml and meta.json of the run hold."""

    home: Home
    run: RunPaths
    paths: AttemptPaths
    config: dict[str, Any]
    meta: dict[str, Any]
    threads: int


@dataclass(frozen=True)
class End:
    """How an attempt ended. `error`: the error behind it with all its lines, None where there was none."""

    outcome: str
    reason: str = ""
    error: str | None = None


def perform(attempt: Attempt, stop: Stop) -> str:
    """Train, record how that ended in outcome.json, and publish a result; the outcome.

    Whatever the trainer raises becomes an outcome, its traceback is printed. When the disk is full nothing that was
    recorded is lost: the outcome says so, and the next attempt goes on from the newest checkpoint.
    """
    started = time.monotonic()
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
    record = {
        "run": attempt.run.id,
        "attempt": attempt.paths.number,
        "outcome": end.outcome,
        "reason": end.reason,
        "step": io.step if io else None,
        "success": io.success if io else None,
        "wall": round(time.monotonic() - started, 3),
        "error": end.error,
        "summary": {**read_facts(attempt.paths), **summary},
        "time": time.time(),
        "events": io.events if io else None,
        **hardware_used(),
    }
    try:
        if io is not None:
            io.close()
        create(attempt.paths.outcome, to_checked_json(record), sync=False)  # lost in a power cut: it counts as vanished
        if is_result(end.outcome):
            publish(attempt, record, restored_step=(io.restored_step if io else None) or 0)
    except OSError as error:
        traceback.print_exc()
        return classify(error)[0]
    return end.outcome


def _train(attempt: Attempt, io: FileRunIO, summary: dict[str, Any], stop: Stop) -> End:
    """Let the trainer train. What belongs into the record whatever happens is put into `summary` as it is known."""
    name = attempt.meta["trainer"]
    check_code(attempt.meta, attempt.config)
    spec = find_trainer(name)
    config, smaller = memory.fitted(spec, typed_config(attempt.config, spec), attempt.run)
    if smaller:
        memory.note(attempt.paths, smaller)
        print(f"an earlier attempt ran out of memory: now {smaller}", flush=True)
        summary[memory.AFTER_OOM] = smaller
    with contained(attempt.run.root), beating(attempt.paths.alive.touch):
        ended = train(attempt.home, config, spec, attempt.threads, io)
    summary |= _plain(ended.summary, name)
    if ended.kind != INTERRUPTED and not is_result(ended.kind):
        raise RunError(f"the trainer returned the unknown outcome {ended.kind!r}", where=name)
    return End(ended.kind, stop.reason if ended.kind == INTERRUPTED else "")


def _plain(summary: dict[str, Any], trainer: str) -> dict[str, Any]:
    """The summary of a trainer's outcome as JSON holds it; RunError for one that JSON cannot hold."""
    try:
        text = json.dumps(summary, ensure_ascii=False)
        text.encode()
        plain: dict[str, Any] = json.loads(text)
        return plain
    except (TypeError, ValueError) as error:
        raise RunError(
            f"the summary that the trainer {trainer!r} returned cannot be saved as JSON: {error}",
            where=trainer,
            mend="put numbers, texts, lists and dicts into it; `float(x)` makes a number of an array's element",
        ) from error


def _after_request(end: End, run: RunPaths, stop: Stop) -> End:
    """The same end, unless somebody had asked the run to stop: then that is why it ended."""
    if stop.asked and end.outcome == "failed:node":  # the scheduler ended what the run had started before it could save
        reason = "asked to stop, and its nodes or processes were gone before it could save"
        end = End(INTERRUPTED, reason, end.error)
    if end.outcome == INTERRUPTED and run.cancel.exists():
        return End(*requested_end(run), end.error)
    return end
