"""Executes one run in this process: takes its lease, mends what earlier attempts left, makes the next attempt.

Promised: `execute` may be killed at any moment and called again; it goes on from the newest valid checkpoint and ends
with the same history. Whatever the trainer raises becomes an outcome, with the traceback in the attempt's log.txt.
`result.json` is the last thing written.
"""

from __future__ import annotations

import os

from plat.runner.attempt import Attempt, perform
from plat.runner.process import output_to, stop_on_signals
from plat.runner.process_tree import kill_leftovers
from plat.store.durable import remove_scratch, set_aside
from plat.store.home import Home
from plat.store.run_directory import lease
from plat.store.run_directory.attempts import close_abandoned, new_attempt
from plat.store.run_directory.damage import files_to_set_aside, spool_damage
from plat.store.run_directory.files import read_config, read_meta, read_result, result_damage
from plat.store.run_directory.paths import RunPaths


def execute(home: Home, run_id: str, *, steal: bool = False, redirect: bool = True) -> str:
    """Do one run and return its outcome ("finished", "stopped:...", "failed:...", "interrupted", "cancelled",
    "stopped:pruned").

    A run that is done already returns its outcome at once. LeaseHeld when somebody else has it, HomeError when its
    config or meta.json is damaged or of another run. A damaged result.json, what is another run's, and attempts whose
    events are damaged are set aside, and the run is done again as far as needed; the attempt's log says so. With
    `redirect`, everything the process prints goes to the attempt's log.txt meanwhile.
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
        _clear_up_after_earlier_attempts(paths)
        mended = _set_damage_aside(paths)
        close_abandoned(paths)
        paths.cancel.unlink(missing_ok=True)
        threads = int((meta.get("resources") or {}).get("threads") or 1)
        attempt = new_attempt(paths, held.attempt, threads)
        with output_to(attempt.log if redirect else None), stop_on_signals() as stop:
            for line in mended:
                print(line, flush=True)
            return perform(Attempt(home, paths, attempt, config, meta, threads), stop)
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
    for path, says in files_to_set_aside(paths).items():
        if aside := set_aside(path):
            lines.append(f"{path.relative_to(paths.root)} {says}; it is now {aside.name}")
    return lines
