"""The actor's loss in verl's workers: verl's own, times the scale of the filter; and the worker's learning rate."""

from __future__ import annotations

from typing import Any

import torch
from verl.single_controller.base.decorator import Dispatch, register
from verl.trainer.ppo.core_algos import agg_loss
from verl.utils import tensordict_utils as tu
from verl.utils.metric import AggregationType, Metric
from verl.workers.engine_workers import ActorRolloutRefWorker, TrainingWorker
from verl.workers.utils.losses import ppo_loss, value_loss
from verl.workers.utils.padding import no_padding_2_padding

SCALE = "plat_loss_scale"  # in a batch's extra_info: what the whole loss is multiplied by


def scaled_policy_loss(config: Any, model_output: Any, data: Any, dp_group: Any = None) -> tuple[Any, dict[str, Any]]:
    """verl's `ppo_loss` times SCALE; the metric `entropy` is the token mean, whatever the aggregation of the loss."""
    scale = tu.get_non_tensor_data(data=data, key=SCALE, default=1.0)
    metrics: dict[str, Any] = {}
    if model_output.get("entropy") is not None:
        mask = data["response_mask"].to_padded_tensor(0).bool()
        entropy = no_padding_2_padding(model_output["entropy"], data)
        with torch.no_grad():
            mean = agg_loss(
                entropy, mask, "token-mean", dp_size=data["dp_size"], batch_num_tokens=data["batch_num_tokens"]
            )
        metrics["entropy"] = Metric(AggregationType.SUM, mean)
    loss, own = ppo_loss(config, model_output, data, dp_group)
    return loss * scale, own | metrics


def scaled_value_loss(config: Any, model_output: Any, data: Any, dp_group: Any = None) -> tuple[Any, dict[str, Any]]:
    """verl's `value_loss` times SCALE."""
    scale = tu.get_non_tensor_data(data=data, key=SCALE, default=1.0)
    loss, metrics = value_loss(config, model_output, data, dp_group)
    return loss * scale, metrics


def _set_rate(engine: Any, rate: float) -> None:
    """The learning rate of the next step; verl's scheduler puts the configured one back after it."""
    for group in engine.optimizer.param_groups:
        group["lr"] = rate


class ActorWorker(ActorRolloutRefWorker):  # type: ignore[misc]
    """verl's worker for actor, rollout and reference, whose learning rate can be set."""

    @register(dispatch_mode=Dispatch.ONE_TO_ALL)  # type: ignore[untyped-decorator]
    def set_learning_rate(self, rate: float) -> None:
        _set_rate(self.actor.engine, rate)


class CriticWorker(TrainingWorker):  # type: ignore[misc]
    """verl's worker for the critic, whose learning rate can be set."""

    @register(dispatch_mode=Dispatch.ONE_TO_ALL)  # type: ignore[untyped-decorator]
    def set_learning_rate(self, rate: float) -> None:
        _set_rate(self.engine, rate)
