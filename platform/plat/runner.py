"""Executes one run in this process: takes its lease, trains, records how it ended. The only caller of a trainer.

Promised: `execute` may be killed at any moment and called again; it goes on from the newest valid checkpoint and ends
with the same history. Whatever the trainer raises becomes an outcome, with the traceback in the
attempt's log.txt. `result.json` is the last thing written.

Failure classes
    oom        MemoryError, torch's out-of-memory errors; a SIGKILL only when the kernel counted an OOM kill meanwhile
    nan        RunError("nan") of the trainer, FloatingPointError
    disk       no space, quota, file too large, read-only file system
    node       killed without such evidence, or an attempt that never said how it ended (power cut, reboot)
    stalled    no event for too long (the dispatcher kills it)
    error      anything else: the user's or the trainer's mistake

What a dispatcher may try again by itself is RETRIES; what a later `plat sweep` may try again is everything except
FINAL.
"""

from __future__ import annotations

import contextlib
import dataclasses
import errno
import faulthandler
import importlib
import json
import os
import signal
import sys
import time
import traceback
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from plat.errors import PlatError, RunError
from plat.outcomes import is_result
from plat.spec.schema import select
from plat.store.durable import append_line, create, set_aside, to_checked_json, to_json
from plat.store.home import AttemptPaths, Home, RunPaths
from plat.store.run_directory import lease
from plat.store.run_directory.attempts import close_abandoned, hardware_used, new_attempt
from plat.store.run_directory.damage import spool_damage
from plat.store.run_directory.files import headline_of, read_config, read_meta, read_outcome, read_result, result_damage
from plat.store.run_directory.run_io import FileRunIO, read_facts
from plat.trainer.api import Outcome, TrainerSpec, find_trainer

RETRIES = {"preempted": 1000, "node": 2, "timeout": 2, "stalled": 1}  # by the dispatcher, within one sweep
FINAL = ("failed:nan", "failed:error")  # would fail again: only `plat retry` tries
_DISK = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS)


def execute(home: Home, run_id: str, *, steal: bool = False, redirect: bool = True) -> str:
    """Do one run and return its outcome ("finished", "stopped:...", "failed:...", "interrupted", "cancelled").

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
        paths.cancel.unlink(missing_ok=True)
        threads = int((meta.get("resources") or {}).get("threads") or 1)
        mended = _set_damage_aside(paths)
        attempt = new_attempt(paths, held.attempt, threads)
        with output_to(attempt.log if redirect else None), _stop_on_signals() as stop:
            for line in mended:
                print(line, flush=True)
            return _attempt(home, paths, attempt, config, meta, threads, stop)
    finally:
        held.release()


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


def _attempt(
    home: Home,
    paths: RunPaths,
    attempt: AttemptPaths,
    config: dict[str, Any],
    meta: dict[str, Any],
    threads: int,
    stop: _Stop,
) -> str:
    started = time.monotonic()
    outcome, reason, error, summary, io = "failed:error", "", None, {}, None
    try:
        io = FileRunIO(paths, attempt, home.cache, lambda: stop.asked, headline_of(meta))
        ended = _train(home, config, meta["trainer"], threads, io)
        summary = json.loads(to_json(ended.summary))  # checked now: a summary that is not JSON is the trainer's mistake
        outcome = ended.kind
        if outcome == "interrupted":
            reason = "asked to stop"
        elif not is_result(outcome):
            raise RunError(f"the trainer returned the unknown outcome {outcome!r}", where=meta["trainer"])
    except KeyboardInterrupt:
        outcome, reason = "interrupted", "interrupted before it could save"
    except BaseException as raised:
        traceback.print_exc()
        outcome, reason = classify(raised)
        error = raised.render() if isinstance(raised, PlatError) else f"{type(raised).__name__}: {raised}"
    if outcome == "interrupted" and paths.cancel.exists():
        outcome, reason = "cancelled", "cancelled"
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
            _publish(home, paths, attempt, config, meta, record, io)
    except OSError as full:  # nothing recorded is lost: the attempt is redone from its newest checkpoint
        traceback.print_exc()
        return classify(full)[0]
    return outcome


def _train(home: Home, config: dict[str, Any], trainer: str, threads: int, io: FileRunIO) -> Outcome:
    spec = find_trainer(trainer)
    typed = _typed(config, spec)
    train = spec.load()
    pin_threads(threads)
    if spec.prepare is not None and spec.load_prepare is not None and spec.prepare(typed) is not None:
        spec.load_prepare()(typed, home.cache)
    return train(typed, io)


def prepare(home: Home, trainer: str, config: dict[str, Any], threads: int = 1) -> None:
    """Do the shared work that a run needs, unless it is cached (then this is quick)."""
    spec: TrainerSpec = find_trainer(trainer)
    if spec.load_prepare is None:
        raise RunError(f"the trainer {spec.name!r} names a preparation and has none", where=trainer)
    work = spec.load_prepare()
    pin_threads(threads)
    work(_typed(config, spec), home.cache)


def warm_up(trainer: str) -> None:
    """Import and compute, in a server that will be forked, what every run of this trainer would otherwise do again."""
    spec = find_trainer(trainer)
    for name in spec.preload:
        importlib.import_module(name)
    with contextlib.suppress(TypeError, PlatError):  # a config without defaults: then each run does it
        _typed(dataclasses.asdict(spec.config_type()), spec)


def _typed(config: dict[str, Any], spec: TrainerSpec) -> Any:
    from plat.spec.experiment import config_object

    return config_object(config, spec)


def _publish(
    home: Home,
    paths: RunPaths,
    attempt: AttemptPaths,
    config: dict[str, Any],
    meta: dict[str, Any],
    record: dict[str, Any],
    io: FileRunIO | None,
) -> None:
    """result.json, exclusively and last; then the measured time, for `plat plan`."""
    attempts = paths.attempts()
    outcomes = [read_outcome(past) or {} for past in attempts]
    kept = {key: record[key] for key in ("outcome", "reason", "step", "success", "summary", "time")}
    result = {
        "id": paths.id,
        "name": meta["name"],
        **kept,
        "iterations": find_trainer(meta["trainer"]).iterations(config),
        "attempt": attempt.number,
        "attempts": [past.number for past in attempts],
        "wall": round(sum(outcome.get("wall") or 0.0 for outcome in outcomes), 3),
    }
    if create(paths.result, to_checked_json(result)):
        first = (io.restored_step if io else None) or 0
        append_line(home.history, _history_line(config, meta, record, first))


def _history_line(config: dict[str, Any], meta: dict[str, Any], record: dict[str, Any], first: int) -> dict[str, Any]:
    """What `plat plan` learns from: what the run had to do, and how long that took."""
    return {
        "time": record["time"],
        "run": meta["id"],
        "trainer": meta["trainer"],
        "cost": cost_facts(config, find_trainer(meta["trainer"])),
        "scale": meta.get("scale"),
        "iterations": (record["step"] or 0) - first,  # done in `wall` seconds
        "wall": record["wall"],
        "peak_mb": record["peak_mb"],
        "outcome": record["outcome"],
    }


def cost_facts(config: Mapping[str, Any], trainer: TrainerSpec) -> dict[str, Any]:
    """What a run's time depends on besides trainer and scale: dotted config key -> value, None where it is absent."""
    return {key: select(config, key) for key in trainer.cost_keys}


# --- failures and results ------------------------------------------------------------------------------------------


def classify(error: BaseException) -> tuple[str, str]:
    """("failed:<class>", reason in one line) of an exception, its causes included."""
    reason = " ".join(str(getattr(error, "what", None) or f"{type(error).__name__}: {error}").split())[:500]
    seen: list[BaseException] = []
    cause: BaseException | None = error
    while cause is not None and cause not in seen:
        seen.append(cause)
        if isinstance(cause, RunError) and cause.failure_class != "error":
            return f"failed:{cause.failure_class}", reason
        if isinstance(cause, MemoryError) or any(base.__name__ == "OutOfMemoryError" for base in type(cause).__mro__):
            return "failed:oom", reason
        if isinstance(cause, RuntimeError) and ("out of memory" in str(cause) or "can't allocate memory" in str(cause)):
            return "failed:oom", reason
        if isinstance(cause, OSError) and cause.errno in _DISK:
            return "failed:disk", reason
        if isinstance(cause, FloatingPointError):
            return "failed:nan", reason
        cause = cause.__cause__ or cause.__context__
    return "failed:error", reason


# --- the process ----------------------------------------------------------------------------------------------------


class _Stop:
    asked = False


@contextlib.contextmanager
def _stop_on_signals() -> Iterator[_Stop]:
    """SIGTERM, and SIGINT unless it is ignored, ask the trainer to stop; a second SIGINT interrupts it."""
    stop = _Stop()

    def ask(number: int, frame: Any) -> None:
        if stop.asked and number == signal.SIGINT:
            raise KeyboardInterrupt
        stop.asked = True

    before: dict[signal.Signals, Any] = {}
    try:
        for number in (signal.SIGTERM, signal.SIGINT):
            if signal.getsignal(number) is not signal.SIG_IGN:
                before[number] = signal.signal(number, ask)
    except ValueError:
        pass  # not the main thread: nothing to listen with
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextlib.contextmanager
def output_to(path: Path | None) -> Iterator[None]:
    """Send everything printed, and the traceback of a segfault, to a file; None: change nothing."""
    if path is None:
        yield
        return
    streams, descriptors = (sys.stdout, sys.stderr), (os.dup(1), os.dup(2))
    watched = faulthandler.is_enabled()
    file = open(path, "a", buffering=1, encoding="utf-8", errors="backslashreplace")
    try:
        for stream, number in zip(streams, (1, 2), strict=True):
            stream.flush()
            os.dup2(file.fileno(), number)
        sys.stdout = sys.stderr = file
        faulthandler.enable(file)
        yield
    finally:
        faulthandler.disable()
        sys.stdout, sys.stderr = streams
        for stream, number, descriptor in zip(streams, (1, 2), descriptors, strict=True):
            with contextlib.suppress(OSError, ValueError):
                stream.flush()  # what was printed through the old stream belongs to the log, too
            os.dup2(descriptor, number)
            os.close(descriptor)
        with contextlib.suppress(OSError):  # the disk may be full
            file.close()
        if watched:
            faulthandler.enable(sys.__stderr__ or 2)


def pin_threads(threads: int) -> None:
    if threads and "torch" in sys.modules:
        sys.modules["torch"].set_num_threads(threads)
