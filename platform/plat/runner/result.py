"""Write result.json of a run, and its line in the history from which times are estimated."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from plat.spec.composition.schema import select
from plat.spec.composition.trainer_calls import iterations_of
from plat.store.disk.durable import append_line, create, to_checked_json
from plat.store.run_directory.history import covered_attempts
from plat.store.run_directory.run_files import gpus_of, read_outcome
from plat.trainer.api import TrainerSpec
from plat.trainer.finding import find_trainer

if TYPE_CHECKING:
    from plat.runner.attempt import Attempt


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
        "peak_mb": record["peak_mb"],
        "outcome": record["outcome"],
    }


def cost_facts(config: Mapping[str, Any], trainer: TrainerSpec) -> dict[str, Any]:
    """Return the values of the trainer's cost keys: dotted config key -> value, None if it is absent."""
    return {key: select(config, key) for key in trainer.cost_keys}
