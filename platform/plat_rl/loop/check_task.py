"""Check a run's task before the run is submitted: its environment, and the number of its different problems."""

from __future__ import annotations

from time import process_time
from typing import Any

from plat.errors import SpecError
from plat_envs.api import EnvironmentSpec
from plat_envs.environment_errors import BadEnvironment
from plat_envs.instances import evaluation_tries
from plat_rl.environments import environment_of
from plat_rl.loop.randomness import count_key, too_few
from plat_rl.loop.rehearsal import rehearse
from plat_rl.run_config import RunConfig

PATIENCE = 5.0  # for each split [seconds of processor time]
_COUNTED: dict[str, int | None] = {}  # counts of this process, by everything that they depend on


def check_task(config: RunConfig) -> None:
    """Raise PluginError if the environment breaks its contract, SpecError if it has too few problems."""
    rehearse(config)
    check_instances(config)


def check_instances(config: RunConfig) -> None:
    """Raise SpecError if the task has fewer different problems than `eval.instances` or `eval.heldout`.

    If they cannot be counted here within PATIENCE, the task passes; the run counts them when it starts.
    """
    spec, options = environment_of(config)
    if not spec.countable(options):
        return
    for split, count in (("validation", config.eval.instances), ("heldout", config.eval.heldout)):
        if count <= spec.plenty and options == spec.config_type():
            continue
        key = repr((spec.name, options, split, config.train.rendering, config.eval.seed, count))
        if key not in _COUNTED:
            _COUNTED[key] = _count(config, spec, options, split, count) if count else 0
        distinct = _COUNTED[key]
        if distinct is not None and distinct < count:
            raise too_few(spec.name, split, distinct, count)


def _count(config: RunConfig, spec: EnvironmentSpec, options: Any, split: str, count: int) -> int | None:
    """Count the different problems among the seeds that an evaluation tries, up to `count`; None after PATIENCE."""
    problems: set[str] = set()
    deadline = process_time() + PATIENCE
    try:
        environment = spec.make(options, split, config.train.rendering)
        for seed in evaluation_tries(config.eval.seed, count):
            environment.reset(seed)
            problems.add(environment.problem)
            if len(problems) == count:
                break
            if process_time() > deadline:
                return None
    except BadEnvironment as error:
        fix = "; ".join(filter(None, [error.fix, "eval.heldout=0 needs none" if split == "heldout" else ""]))
        raise SpecError(error.what, where=error.where or count_key(split), fix=fix) from error
    return len(problems)
