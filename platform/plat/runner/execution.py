"""Executes one run in this process: takes its lease, trains, records how it ended.

Promised: `execute` may be killed at any moment and called again; it goes on from the newest valid checkpoint and ends
with the same history. Whatever the trainer raises becomes an outcome, with the traceback in the attempt's log.txt.
`result.json` is the last thing written.
"""

from __future__ import annotations

import json
import os
import time
import traceback
from typing import Any

from plat.errors import PlatError, RunError
from plat.outcomes import INTERRUPTED, is_result
from plat.runner import memory
from plat.runner.failures import classify
from plat.runner.process import Stop, output_to, stop_on_signals
from plat.runner.process_tree import contained, kill_leftovers
from plat.runner.result import publish
from plat.runner.training import train, typed_config
from plat.store.durable import create, remove_scratch, set_aside, to_checked_json, to_json
from plat.store.home import AttemptPaths, Home, RunPaths
from plat.store.run_directory import lease
from plat.store.run_directory.attempts import close_abandoned, hardware_used, new_attempt, requested_end
from plat.store.run_directory.damage import spool_damage
from plat.store.run_directory.files import headline_of, read_config, read_meta, read_result, result_damage
from plat.store.run_directory.run_io import FileRunIO, read_facts
from plat.trainer.api import find_trainer


def execute(home: Home, run_id: str, *, steal: bool = False, redirect: bool = True) -> str:
    """Do one run and return its outcome ("finished", "stopped:...", "failed:...", "interrupted", "cancelled",
    "stopped:pruned").

    A run that is done already returns its outcome at once. LeaseHeld when somebody else has it, HomeError when its
    config or meta.json is damaged. A damaged result.json, and attempts whose events are damaged, are set aside, and
    the run is done again as far as needed; the attempt's log says so. With `redirect`, everything the process prints
    goes to the attempt's log.txt meanwhile.
    """
    paths = home.run(run_id)
    done = read_result(paths)
    if done is not None:
        return str(done["outcome"])
    config, meta = read_config(paths), read_meta(paths)
    held = lease.take(paths, steal=steal)
    if held is None:
        raise lease.refusal(paths)
    try:
        done = read_result(paths)  # it may have ended while we asked
        if done is not None:
            return str(done["outcome"])
        close_abandoned(paths)
        _clear_up_after_earlier_attempts(paths)
        paths.cancel.unlink(missing_ok=True)
        threads = int((meta.get("resources") or {}).get("threads") or 1)
        mended = _set_damage_aside(paths)
        attempt = new_attempt(paths, held.attempt, threads)
        with output_to(attempt.log if redirect else None), stop_on_signals() as stop:
            for line in mended:
                print(line, flush=True)
            return _attempt(home, paths, attempt, config, meta, threads, stop)
    finally:
        held.release()


def _clear_up_after_earlier_attempts(paths: RunPaths) -> None:
    """End the processes and remove the half-written folders that killed attempts have left, under the lease."""
    earlier = paths.attempts()
    if earlier:
        kill_leftovers(paths.root)
    for attempt in earlier:
        remove_scratch(attempt.checkpoints)
        remove_scratch(attempt.artifacts)


def _set_damage_aside(paths: RunPaths) -> list[str]:
    """Put away what must not be used, under the run's lease; one line about each thing."""
    lines = []
    problem = result_damage(paths)
    if problem and (aside := set_aside(paths.result)):
        lines.append(f"{problem}; it is now {aside.name}, and the run goes on from its newest checkpoint")
    attempts = paths.root / "attempts"
    in_the_way = os.path.lexists(attempts) and not attempts.is_dir()
    problem = "attempts is no folder" if in_the_way else spool_damage(paths)
    if problem and (aside := set_aside(attempts)):
        lines.append(f"{problem}; the attempts so far are now in {aside.name}, and the run starts anew")
    return lines


def _plain(summary: dict[str, Any], trainer: str) -> dict[str, Any]:
    """The summary of a trainer's outcome as JSON holds it; RunError for one that JSON cannot hold."""
    try:
        plain: dict[str, Any] = json.loads(to_json(summary))
        return plain
    except (TypeError, ValueError) as error:
        raise RunError(
            f"the summary that the trainer {trainer!r} returned cannot be saved as JSON: {error}",
            where=trainer,
            mend="put numbers, texts, lists and dicts into it; `float(x)` makes a number of an array's element",
        ) from error


def _attempt(
    home: Home,
    paths: RunPaths,
    attempt: AttemptPaths,
    config: dict[str, Any],
    meta: dict[str, Any],
    threads: int,
    stop: Stop,
) -> str:
    started = time.monotonic()
    outcome, reason, error, io = "failed:error", "", None, None
    summary: dict[str, Any] = {}
    try:
        io = FileRunIO(paths, attempt, home.cache, lambda: stop.asked, headline_of(meta))
        spec = find_trainer(meta["trainer"])
        fitting, smaller = memory.fitted(spec, typed_config(config, spec), paths)
        if smaller:
            memory.note(attempt, smaller)
            print(f"an earlier attempt ran out of memory: now {smaller}", flush=True)
            summary = {memory.AFTER_OOM: smaller}
        with contained(paths.root):
            ended = train(home, fitting, spec, threads, io)
        summary |= _plain(ended.summary, meta["trainer"])
        outcome = ended.kind
        if outcome == INTERRUPTED:
            reason = "asked to stop"
        elif not is_result(outcome):
            raise RunError(f"the trainer returned the unknown outcome {outcome!r}", where=meta["trainer"])
    except KeyboardInterrupt:
        outcome, reason = INTERRUPTED, "interrupted before it could save"
    except BaseException as raised:
        traceback.print_exc()
        outcome, reason = classify(raised)
        error = raised.render() if isinstance(raised, PlatError) else f"{type(raised).__name__}: {raised}"
    if stop.asked and outcome == "failed:node":  # the scheduler ended what the run had started before it could save
        outcome, reason = INTERRUPTED, "asked to stop, and its nodes or processes were gone before it could save"
    if outcome == INTERRUPTED and paths.cancel.exists():
        outcome, reason = requested_end(paths)
    record = {
        "outcome": outcome,
        "reason": reason,
        "step": io.step if io else None,
        "success": io.success if io else None,
        "wall": round(time.monotonic() - started, 3),
        "error": error,
        "summary": {**read_facts(attempt), **summary},
        "time": time.time(),
        "events": io.events if io else None,
        **hardware_used(),
    }
    try:
        if io is not None:
            io.close()
        create(attempt.outcome, to_checked_json(record), sync=False)  # lost in a power cut, it counts as vanished
        if is_result(outcome):
            publish(home, paths, attempt, config, meta, record, io)
    except OSError as full:  # nothing recorded is lost: the attempt is redone from its newest checkpoint
        traceback.print_exc()
        return classify(full)[0]
    return outcome
