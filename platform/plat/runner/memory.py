"""The ladder that a run goes down when memory runs out: every attempt that ended so makes the next one smaller.

How a run becomes smaller its trainer says (`TrainerSpec.less_memory`): it works on fewer rows at once, for example on
half as many trajectories in a micro-batch, while everything that results depend on, the effective batch included,
stays. Only operational keys may change. The results may then differ in their last bits, so what was changed is
recorded with the run: AFTER_OOM in the attempt's meta.json and in the summary of result.json.
"""

from __future__ import annotations

import dataclasses
from typing import Any

from plat.errors import RunError
from plat.spec.identity import is_operational
from plat.spec.schema import leaves
from plat.spec.trainer_calls import checked_call
from plat.store.durable import to_checked_json, write
from plat.store.run_directory.files import read_attempt_meta, read_outcome
from plat.store.run_directory.paths import AttemptPaths, RunPaths
from plat.trainer.api import TrainerSpec

OOM = "failed:oom"
AFTER_OOM = "after_oom"


def fitted(spec: TrainerSpec, config: Any, paths: RunPaths) -> tuple[Any, dict[str, Any]]:
    """The config of the next attempt, and what of it was made smaller: dotted key -> value; {} while memory was enough.

    RunError when the trainer changed a key that results depend on.
    """
    fitting = config
    for _ in range(_out_of_memory(paths)):
        fitting = _smaller(spec, fitting) or fitting
    before, after = (leaves(dataclasses.asdict(each)) for each in (config, fitting))
    changed = {key: value for key, value in after.items() if value != before.get(key)}
    for key in changed:
        if not is_operational(key, spec.operational_keys):
            raise RunError(
                f"the trainer {spec.name!r} changed {key} to need less memory, and results depend on it",
                where=spec.name,
                mend="change only keys that TrainerSpec.operational_keys names",
            )
    return fitting, changed


def can_be_smaller(spec: TrainerSpec, config: Any, paths: RunPaths) -> bool:
    """Whether a run whose newest attempt ran out of memory may need less in the next one."""
    fitting = config
    for _ in range(_out_of_memory(paths)):
        smaller = _smaller(spec, fitting)
        if smaller is None:
            return False
        fitting = smaller
    return True


def note(attempt: AttemptPaths, changed: dict[str, Any]) -> None:
    """Record in an attempt's meta.json what was made smaller."""
    write(attempt.meta, to_checked_json({**read_attempt_meta(attempt), AFTER_OOM: changed}))


def _out_of_memory(paths: RunPaths) -> int:
    """How many attempts of a run have ended for lack of memory."""
    return sum((read_outcome(attempt) or {}).get("outcome") == OOM for attempt in paths.attempts())


def _smaller(spec: TrainerSpec, config: Any) -> Any | None:
    return checked_call(spec, "less_memory")(config)
