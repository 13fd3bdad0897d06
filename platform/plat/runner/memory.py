"""Make a run smaller after it ran out of memory: each such attempt makes the next one smaller by one step.

`TrainerSpec.less_memory` makes a step, for example half as many examples in a micro-batch. Only operational keys
may change, so results may differ in their last bits only. The change is recorded as AFTER_OOM in the attempt's
meta.json and in the summary of result.json.
"""

from __future__ import annotations

import dataclasses
from typing import Any

from plat.errors import RunError
from plat.spec.composition.schema import leaves
from plat.spec.composition.trainer_calls import checked_call
from plat.spec.identity.run_identity import is_operational
from plat.store.disk.durable import to_checked_json, write
from plat.store.run_directory.paths import AttemptPaths, RunPaths
from plat.store.run_directory.run_files import read_attempt_meta, read_outcome
from plat.trainer.api import TrainerSpec
from plat.words.outcomes import failed

OOM = failed("oom")
AFTER_OOM = "after_oom"


def fitted(spec: TrainerSpec, config: Any, paths: RunPaths) -> tuple[Any, dict[str, Any]]:
    """Return the config of the next attempt, and the keys that were made smaller -> value ({} if memory was enough).

    config  the run's config, as its trainer's `config_type`

    Raises RunError if the trainer changed a key that results depend on, PluginError if its `less_memory` fails.
    """
    fitting = config
    for _ in range(_out_of_memory(paths)):
        fitting = checked_call(spec, "less_memory")(fitting) or fitting
    before, after = (leaves(dataclasses.asdict(each)) for each in (config, fitting))
    # spelled, because NaN differs from itself
    changed = {key: value for key, value in after.items() if repr(value) != repr(before.get(key))}
    for key in changed:
        if not is_operational(key, spec.operational_keys):
            raise RunError(
                f"the trainer {spec.name!r} changed {key} to need less memory, and results depend on it",
                where=spec.name,
                fix="change only keys that TrainerSpec.operational_keys names",
            )
    return fitting, changed


def can_be_smaller(spec: TrainerSpec, config: Any, paths: RunPaths) -> bool:
    """Return True if `less_memory` of the trainer, applied to `config` n times, gives a smaller config each time.

    n is the number of the run's attempts that ran out of memory. To be asked when the newest attempt did.
    Raises PluginError if the trainer's `less_memory` fails.
    """
    fitting = config
    for _ in range(_out_of_memory(paths)):
        fitting = checked_call(spec, "less_memory")(fitting)
        if fitting is None:
            return False
    return True


def note(attempt: AttemptPaths, changed: dict[str, Any]) -> None:
    """Record in an attempt's meta.json what was made smaller."""
    write(attempt.meta, to_checked_json({**read_attempt_meta(attempt), AFTER_OOM: changed}))


def _out_of_memory(paths: RunPaths) -> int:
    """Return how many attempts of a run ran out of memory."""
    return sum((read_outcome(attempt) or {}).get("outcome") == OOM for attempt in paths.attempts())
