"""Execute one run in this process: take its lease, repair what earlier attempts left, make the next attempt.

Promised: `execute` may be killed at any moment and called again; it resumes from the newest valid checkpoint and ends
with the same history. A trainer's exception becomes an outcome, its traceback is in log.txt. `result.json` is written
last.
"""

from __future__ import annotations

import os

from plat.processes.own_process import output_to, stop_on_signals
from plat.processes.process_tree import kill_leftovers
from plat.runner.attempt import Attempt, perform
from plat.store.disk.durable import remove_scratch, set_aside
from plat.store.home import Home
from plat.store.run_directory import lease
from plat.store.run_directory.attempts import close_abandoned, new_attempt
from plat.store.run_directory.damage import files_to_set_aside, spool_damage
from plat.store.run_directory.own_files import Damage
from plat.store.run_directory.paths import RunPaths
from plat.store.run_directory.run_files import read_config, read_meta, read_result, result_damage


def execute(home: Home, run_id: str, *, steal: bool = False, redirect: bool = True) -> str:
    """Execute one run and return its outcome (see `plat.words.outcomes`); at once if the run is done.

    steal     also take a lease of unknown state; never a live one
    redirect  send everything that the process prints to the attempt's log.txt

    A damaged result.json, files of another run, and attempts with damaged events are set aside, and the run is repeated
    as far as needed; the log says so. An earlier request to cancel the run is dropped. Raises LeaseHeld if the lease
    cannot be taken, HomeError if config.yaml or meta.json is damaged or of another run, OSError if the end of the run
    cannot be recorded.
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
        done = read_result(paths)  # the run may have ended meanwhile
        if done is not None:
            return str(done["outcome"])
        _clear_up_after_earlier_attempts(paths)
        fixed = _set_damage_aside(paths)
        close_abandoned(paths)
        paths.cancel.unlink(missing_ok=True)
        threads = int((meta.get("resources") or {}).get("threads") or 1)
        attempt = new_attempt(paths, held.attempt, threads)
        with output_to(attempt.log if redirect else None), stop_on_signals() as stop:
            for line in fixed:
                print(line, flush=True)
            return perform(Attempt(home, paths, attempt, config, meta, threads), stop)
    finally:
        held.release()


def _clear_up_after_earlier_attempts(paths: RunPaths) -> None:
    """Kill the processes and remove the half-written folders of killed attempts. Needs the lease."""
    earlier = paths.attempts()
    if earlier:
        kill_leftovers(paths.root)
    for attempt in earlier:
        remove_scratch(attempt.checkpoints)
        remove_scratch(attempt.artifacts)


def _set_damage_aside(paths: RunPaths) -> list[str]:
    """Rename damaged files and folders so that they are not used, and return a line about each. Needs the lease."""
    lines = []
    damage = result_damage(paths)
    if damage and (aside := set_aside(paths.result)):
        lines.append(f"{damage}; it is now {aside.name}, and the run resumes from its newest checkpoint")
    attempts = paths.root / "attempts"
    in_the_way = os.path.lexists(attempts) and not attempts.is_dir()
    damage = Damage("is no folder", attempts.name) if in_the_way else spool_damage(paths)
    if damage and (aside := set_aside(attempts)):
        lines.append(f"{damage}; the attempts so far are now in {aside.name}, and the run starts anew")
    for path, damage in files_to_set_aside(paths).items():
        if aside := set_aside(path):
            lines.append(f"{damage}; it is now {aside.name}")
    return lines
