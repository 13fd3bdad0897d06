"""Evaluation on fixed instances, and `plat eval` of a checkpoint."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from plat.errors import SpecError
from plat.trainer.api import State
from plat.trainer.config import RunConfig
from plat.trainer.embedded.batch import Batch
from plat.trainer.embedded.environment import make_environments
from plat.trainer.embedded.randomness import EVALUATION
from plat.trainer.embedded.rollout import Episodes, Sampling, rollout
from plat.trainer.embedded.transformer.model import Weights
from plat.trainer.embedded.transformer.tokenizer import Tokenizer
from plat_envs.api import Environment
from plat_envs.instances import evaluation_seeds

SPLITS = ("validation", "heldout")


class FixedInstances:
    """The first `count` distinct problems of a split, the same for every run with this `eval.seed`.

    Of two counts the smaller set is the beginning of the larger one. They keep their environments, so that evaluating
    again is cheap. SpecError: the task does not have so many.
    """

    def __init__(self, config: RunConfig, split: str, count: int) -> None:
        self.split = split
        self.environments = make_environments(config, split, count)
        self.seeds = evaluation_seeds(self.environments[0], config.eval.seed, count)
        distinct = len(self.problems())
        if distinct < count:
            key = "eval.heldout" if split == "heldout" else "eval.instances"
            raise SpecError(
                f"{config.task.name} has {distinct} different problems for {split}, {count} are asked for",
                where=key,
                mend=f"{key}={distinct}, or more problems (task.env)",
            )

    def __len__(self) -> int:
        return len(self.seeds)

    def problems(self) -> set[str]:
        """The problem of each instance, in its canonical form."""
        return {environment.problem for environment in self._started()}

    def _started(self) -> Iterator[Environment]:
        for environment, seed in zip(self.environments, self.seeds, strict=True):
            environment.reset(seed)
            yield environment


def evaluate(
    weights: Weights, tokenizer: Tokenizer, config: RunConfig, instances: FixedInstances
) -> tuple[dict[str, float], Batch]:
    """One trajectory per instance at `eval.temperature`: metrics (`val/...` without the prefix) and the trajectories.

    success, return          means over instances
    turns                    mean number of turns of an episode
    actions_per_turn         mean number of actions that the environment executed in a turn
    moves_per_turn           mean number of those that changed the state (in text tasks: valid answers)
    format_valid             share of the turns with a valid format
    response_tokens          mean length of a response

    Random numbers are a function of `eval.seed`, the split and the instance's number, so two evaluations differ by the
    policy only, and the first 128 of 256 instances give what 128 instances give.
    """
    count = len(instances)
    episodes = Episodes(instances.environments, instances.seeds, range(count), np.arange(count))
    task, temperature = config.task, config.eval.temperature
    sampling = Sampling(task.turns, task.response_tokens, temperature, config.train.context, task.token_cost)
    batch = rollout(weights, tokenizer, episodes, sampling, (EVALUATION, config.eval.seed, instances.split))
    return {
        "success": float(batch.success.mean()),
        "return": float(batch.returns.mean()),
        "turns": len(batch.turn_of_row) / count,
        "actions_per_turn": float(batch.actions.mean()),
        "moves_per_turn": float(batch.moves.mean()),
        "format_valid": float(batch.format_valid.mean()),
        "response_tokens": float(batch.response_length.mean()),
    }, batch


def instance_results(batch: Batch) -> dict[str, Any]:
    """Of each instance, JSON-able: success (0 or 1), return, number of turns, number of moves in all of them."""
    return {
        "success": batch.success.astype(int).tolist(),
        "return": [round(float(value), 6) for value in batch.returns],
        "turns": batch.per_trajectory(np.ones(len(batch.turn_of_row))).astype(int).tolist(),
        "moves": batch.per_trajectory(batch.moves).astype(int).tolist(),
    }


def evaluate_checkpoint(
    config: RunConfig, state: State, cache: Path, overrides: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """`plat eval`: metrics and per-instance results of a checkpoint's policy.

    overrides: split (validation | heldout, default heldout), instances (default: as many as in the run); SpecError for
    others.
    """
    import torch

    from plat.trainer.embedded.base_model.load import empty_model
    from plat.trainer.embedded.transformer.model import unpack

    options = dict(overrides or {})
    for name in options.keys() - {"split", "instances"}:
        raise SpecError(f"the evaluation has no option {name!r}", mend="one of: split, instances")
    split = str(options.get("split", "heldout"))
    if split not in SPLITS:
        raise SpecError(f"there is no split {split!r}", where="split", mend=f"one of: {', '.join(SPLITS)}")
    default = config.eval.heldout if split == "heldout" else config.eval.instances
    count = options.get("instances", default or config.eval.instances)
    if type(count) is not int or count < 1:
        raise SpecError(f"{count!r} instances cannot be played", where="instances", mend="a whole number from 1")
    torch.set_num_threads(config.threads)
    shape, tokenizer = empty_model(config)
    weights = unpack(shape, state.tensors["actor.parameters"].to(config.device))
    metrics, batch = evaluate(weights, tokenizer, config, FixedInstances(config, split, count))
    return {"split": split, "instances": count, **metrics, "results": instance_results(batch)}
