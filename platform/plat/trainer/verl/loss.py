"""The actor's loss in verl's workers: verl's own, times the scale of the filter; and the worker's learning rate."""

from __future__ import annotations

from typing import Any

import torch
from verl.single_controller.base.decorator import Dispatch, register
from verl.trainer.ppo.core_algos import agg_loss, kl_penalty
from verl.utils import tensordict_utils as tu
from verl.utils.metric import AggregationType, Metric
from verl.workers.engine_workers import ActorRolloutRefWorker, TrainingWorker
from verl.workers.utils.losses import ppo_loss, value_loss
from verl.workers.utils.padding import no_padding_2_padding

SCALE = "plat_loss_scale"  # in a batch's extra_info: what the whole loss is multiplied by


def scaled_policy_loss(config: Any, model_output: Any, data: Any, dp_group: Any = None) -> tuple[Any, dict[str, Any]]:
    """verl's `ppo_loss` times SCALE; `entropy` and `kl` are token means, whatever the aggregation of the loss."""
    scale = tu.get_non_tensor_data(data=data, key=SCALE, default=1.0)
    metrics = {}
    if model_output.get("entropy") is not None:
        metrics["entropy"] = _token_mean(no_padding_2_padding(model_output["entropy"], data), data)
    if config.use_kl_loss:
        log_probs = no_padding_2_padding(model_output["log_probs"], data).detach()
        estimate = kl_penalty(log_probs, data["ref_log_prob"].to_padded_tensor(0), config.kl_loss_type)
        metrics["kl"] = _token_mean(estimate, data)
    loss, own = ppo_loss(config, model_output, data, dp_group)
    return loss * scale, own | metrics


def _token_mean(values: torch.Tensor, data: Any) -> Metric:
    """The mean over the response tokens of the whole mini-batch, of which these values are a part."""
    mask = data["response_mask"].to_padded_tensor(0).bool()
    divisors = {"dp_size": data["dp_size"], "batch_num_tokens": data["batch_num_tokens"]}
    return Metric(AggregationType.SUM, agg_loss(values.detach(), mask, "token-mean", **divisors))


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
