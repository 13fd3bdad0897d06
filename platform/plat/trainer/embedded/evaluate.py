"""Evaluation on fixed instances, and `plat eval` of a checkpoint."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from plat.errors import SpecError
from plat.trainer.api import State
from plat.trainer.config import RunConfig
from plat.trainer.embedded.batch import Batch
from plat.trainer.embedded.model import Weights
from plat.trainer.embedded.rollout import rollout
from plat.trainer.embedded.spec import environment_of
from plat.trainer.embedded.tokenizer import Tokenizer
from plat_envs.errors import BadEnvironment

EVALUATION = 1  # purpose of random numbers, first part of a generator's key
TRAINING = 2
SCORING = 3
UPDATING = 4


def make_players(config: RunConfig, split: str, count: int) -> list[Any]:
    """`count` environments of the run's task."""
    spec, options = environment_of(config)
    try:
        return [spec.make(options, split, config.train.rendering) for _ in range(count)]
    except BadEnvironment as error:
        raise SpecError(error.what, where=error.where, mend=error.mend) from error


def distinct_seeds(player: Any, first: int, count: int) -> list[int]:
    """The first `count` instance seeds from `first` upward whose first observations differ; repeats only when instances
    run out (no new one in 50 tries a piece)."""
    seen: set[str] = set()
    found: list[int] = []
    for seed in range(first, first + 50 * count):
        observation = player.reset(seed)
        if observation not in seen:
            seen.add(observation)
            found.append(seed)
            if len(found) == count:
                return found
    return [*found, *range(first, first + count - len(found))]


def evaluate(
    weights: Weights, tokenizer: Tokenizer, config: RunConfig, split: str, instances: int, players: list[Any]
) -> tuple[dict[str, float], Batch]:
    """Success and the other `val/` metrics (without prefix) on the first `instances` instances of a split.

    Instances and random numbers are functions of `eval.seed` alone, so two evaluations differ by the policy only.
    """
    seeds = distinct_seeds(players[0], config.eval.seed * 100_000, instances)
    batch = rollout(
        weights,
        tokenizer,
        players,
        seeds,
        range(instances),
        np.arange(instances),
        turns=config.task.turns,
        tokens=config.task.response_tokens,
        temperature=config.eval.temperature,
        key=(EVALUATION, config.eval.seed, 0 if split == "validation" else 1),
        context=config.train.context,
    )
    turns = np.bincount(batch.trajectory_of_row, minlength=instances)
    return {
        "success": float(batch.success.mean()),
        "return": float(batch.returns.mean()),
        "turns": float(turns.mean()),
        "format_valid": float(batch.format_valid.mean()),
        "response_tokens": float(batch.response_length.mean()),
    }, batch


def instance_results(batch: Batch) -> dict[str, Any]:
    """Success and return of each instance, JSON-able."""
    return {
        "success": batch.success.astype(int).tolist(),
        "return": [round(float(value), 6) for value in batch.returns],
    }


def evaluate_checkpoint(
    config: RunConfig, state: State, cache: Path, overrides: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """`plat eval`: metrics and per-instance results of a checkpoint's policy.

    overrides: split (validation | heldout, default heldout), instances (default: as many as in the run); SpecError for
    others.
    """
    import torch

    from plat.trainer.embedded.base import empty_model
    from plat.trainer.embedded.model import unpack

    wanted = dict(overrides or {})
    for name in wanted.keys() - {"split", "instances"}:
        raise SpecError(f"the evaluation has no option {name!r}", mend="one of: split, instances")
    split = str(wanted.get("split", "heldout"))
    if split not in ("validation", "heldout"):
        raise SpecError(f"there is no split {split!r}", where="split", mend="one of: validation, heldout")
    default = config.eval.heldout if split == "heldout" else config.eval.instances
    instances = wanted.get("instances", default or config.eval.instances)
    if type(instances) is not int or instances < 1:
        raise SpecError(f"{instances!r} instances cannot be played", where="instances", mend="a whole number from 1")
    torch.set_num_threads(config.threads)
    shape, tokenizer = empty_model(config)
    weights = unpack(shape, state.tensors["actor.parameters"].to(config.device))
    players = make_players(config, split, instances)
    metrics, batch = evaluate(weights, tokenizer, config, split, instances, players)
    return {"split": split, "instances": instances, **metrics, "results": instance_results(batch)}
