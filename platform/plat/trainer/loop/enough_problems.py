"""Whether a task has as many different problems as the evaluations of a run ask for, counted before any run starts."""

from __future__ import annotations

from time import process_time
from typing import Any

from plat.errors import SpecError
from plat.trainer.config import RunConfig
from plat.trainer.environments import environment_of
from plat.trainer.loop.instances import count_key, too_few
from plat_envs.api import EnvironmentSpec
from plat_envs.errors import BadEnvironment
from plat_envs.instances import evaluation_tries

PATIENCE = 5.0  # for each split [seconds of processor time]
_COUNTED: dict[str, int | None] = {}  # what was counted in this process, by everything that it depends on


def check_instances(config: RunConfig) -> None:
    """SpecError where the task has fewer different problems than `eval.instances` or `eval.heldout` ask for.

    A task whose problems cannot be counted at once, or take longer than PATIENCE, is let pass: then the run itself
    counts them when it starts.
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
    """The number of different problems among the seeds that an evaluation tries, `count` at most; None where counting
    them takes too long."""
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
        mend = "; ".join(filter(None, [error.mend, "eval.heldout=0 needs none" if split == "heldout" else ""]))
        raise SpecError(error.what, where=error.where or count_key(split), mend=mend) from error
    return len(problems)
