"""Evaluation on fixed instances, and `plat eval` of a checkpoint."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from plat.trainer.api import State
from plat.trainer.config import RunConfig
from plat.trainer.embedded.batch import Batch
from plat.trainer.embedded.rollout import Episodes, Rewrite, Sampling, rollout
from plat.trainer.embedded.transformer.model import Weights
from plat.trainer.embedded.transformer.tokenizer import Tokenizer
from plat.trainer.loop.instances import FixedInstances, chosen_instances
from plat.trainer.loop.randomness import EVALUATION
from plat.trainer.loop.trajectories import evaluation_metrics, instance_results


def evaluate(
    weights: Weights,
    tokenizer: Tokenizer,
    config: RunConfig,
    instances: FixedInstances,
    rewrite: Rewrite | None = None,
) -> tuple[dict[str, float], Batch]:
    """One trajectory per instance at `eval.temperature`: their metrics (`evaluation_metrics`), and the trajectories.

    Random numbers are a function of `eval.seed`, the split and the instance's number, so two evaluations differ by the
    policy only, and the first 128 of 256 instances give what 128 instances give. `rewrite` may change what is said.
    """
    count = len(instances)
    episodes = Episodes(instances.environments, instances.seeds, range(count), np.arange(count))
    task, temperature = config.task, config.eval.temperature
    sampling = Sampling(task.turns, task.response_tokens, temperature, config.train.context, task.token_cost)
    batch = rollout(weights, tokenizer, episodes, sampling, (EVALUATION, config.eval.seed, instances.split), rewrite)
    return evaluation_metrics(batch), batch


def evaluate_checkpoint(
    config: RunConfig, state: State, cache: Path, overrides: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """`plat eval`: metrics and per-instance results of a checkpoint's policy; see `chosen_instances` for overrides."""
    import torch

    from plat.trainer.embedded.base_model.load import empty_model
    from plat.trainer.embedded.transformer.model import unpack

    instances = chosen_instances(config, overrides)
    torch.set_num_threads(config.threads)
    shape, tokenizer = empty_model(config)
    weights = unpack(shape, state.tensors["actor.parameters"].to(config.device))
    metrics, batch = evaluate(weights, tokenizer, config, instances)
    return {"split": instances.split, "instances": len(instances), **metrics, "results": instance_results(batch)}
