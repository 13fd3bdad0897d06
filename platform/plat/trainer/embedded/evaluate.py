"""Evaluation on fixed instances, and `plat eval` of a checkpoint."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from plat_envs.api import configure, find_environment

from plat.errors import SpecError
from plat.trainer.api import State
from plat.trainer.config import RunConfig
from plat.trainer.embedded.batch import Batch
from plat.trainer.embedded.model import Weights
from plat.trainer.embedded.rollout import rollout
from plat.trainer.embedded.tokenizer import Tokenizer

EVALUATION = 1  # purpose of random numbers, first part of a generator's key
TRAINING = 2
SCORING = 3
UPDATING = 4


def make_players(config: RunConfig, split: str, count: int) -> list[Any]:
    """`count` environments of the run's task; `task.turns` is the environment's own limit too."""
    spec = find_environment(config.task.name)
    options = configure(spec, {**config.task.env, "turns": config.task.turns})
    return [spec.make(options, split, config.train.rendering) for _ in range(count)]


def evaluate(
    weights: Weights, tokenizer: Tokenizer, config: RunConfig, split: str, instances: int, players: list[Any]
) -> tuple[dict[str, float], Batch]:
    """Success and the other `val/` metrics (without prefix) on the first `instances` instances of a split.

    Instances and random numbers are functions of `eval.seed` alone, so two evaluations differ by the policy only.
    """
    first = config.eval.seed * 100_000
    batch = rollout(
        weights,
        tokenizer,
        players,
        [first + number for number in range(instances)],
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

    overrides: split (validation | heldout, default heldout), instances (default eval.heldout); SpecError for others.
    """
    import torch

    from plat.trainer.embedded.base import load_base
    from plat.trainer.embedded.model import unpack

    wanted = dict(overrides or {})
    for name in wanted.keys() - {"split", "instances"}:
        raise SpecError(f"the evaluation has no option {name!r}", mend="one of: split, instances")
    split = str(wanted.get("split", "heldout"))
    if split not in ("validation", "heldout"):
        raise SpecError(f"there is no split {split!r}", where="split", mend="one of: validation, heldout")
    default = config.eval.heldout if split == "heldout" else config.eval.instances
    instances = int(wanted.get("instances", default))
    torch.set_num_threads(config.threads)
    shape, _, tokenizer = load_base(config, cache)
    weights = unpack(shape, state.tensors["actor.parameters"].to(config.device))
    players = make_players(config, split, instances)
    metrics, batch = evaluate(weights, tokenizer, config, split, instances, players)
    return {"split": split, "instances": instances, **metrics, "results": instance_results(batch)}
