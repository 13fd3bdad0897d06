"""The losses in verl's workers, scaled by the filter, and the workers' learning rate and gradient norms.

The policy's loss is verl's `ppo_loss`, composed here from verl's functions for two reasons: the gradient probe needs
its terms one by one, and trajectories of several sequences need weighted tokens
(`plat_rl.verl.update.batches`), because verl's seq-mean-token-mean weights all sequences equally.
"""

from __future__ import annotations

from typing import Any

import torch
from verl.single_controller.base.decorator import Dispatch, make_nd_compute_dataproto_dispatch_fn, register
from verl.trainer.ppo.core_algos import agg_loss, get_policy_loss_fn, kl_penalty
from verl.utils import tensordict_utils as tu
from verl.utils.metric import AggregationType, Metric
from verl.workers.engine_workers import ActorRolloutRefWorker, TrainingWorker
from verl.workers.utils.losses import value_loss
from verl.workers.utils.padding import no_padding_2_padding

from plat_rl.verl.update.batches import WEIGHT

SCALE = "plat_loss_scale"  # in a batch's extra_info: factor of the whole loss
TERM = "plat_loss_term"  # in a batch's extra_info: the only term of the policy's loss to use; "": all


def scaled_policy_loss(config: Any, model_output: Any, data: Any, dp_group: Any = None) -> tuple[Any, dict[str, Any]]:
    """Return the policy's loss of a micro-batch, and its metrics. verl calls it; `dp_group` is ignored.

    data[SCALE]  factor of the loss, not of the metrics; default 1
    data[TERM]   the only term to use, a key of `loss_terms` (KeyError for another); default "": the sum of all terms

    The metrics are those of `loss_terms`: always of all terms.
    """
    terms, metrics = loss_terms(config, model_output, data)
    term = tu.get_non_tensor_data(data=data, key=TERM, default="")
    loss = terms[term] if term else sum(terms.values())
    return loss * tu.get_non_tensor_data(data=data, key=SCALE, default=1.0), metrics


def loss_terms(config: Any, model_output: Any, data: Any) -> tuple[dict[str, torch.Tensor], dict[str, Any]]:
    """Return the terms of a micro-batch's loss, with signs and coefficients, and metrics (`Metric`, verl's names).

    The terms are `task`, `entropy` if `model_output` has it, and `kl` if `config.use_kl_loss`. The metrics
    `actor/pg_loss`, `entropy` and `kl` are parts of a sum over the micro-batches of a mini-batch. The sums of the last
    two are means over its tokens, however the loss is aggregated.
    """
    mask = data["response_mask"].to_padded_tensor(0).bool()
    weight = data[WEIGHT].to_padded_tensor(0) if WEIGHT in data else None
    mode = config.loss_agg_mode if weight is None else "seq-mean-token-sum"
    divisors = {name: data[name] for name in ("dp_size", "batch_num_tokens", "global_batch_size")}
    divisors["loss_scale_factor"] = config.loss_scale_factor
    config.global_batch_info.update(divisors)

    def aggregated(values: torch.Tensor) -> torch.Tensor:
        weighted = values if weight is None else values * weight
        return agg_loss(weighted, mask, mode, **divisors)  # type: ignore[no-any-return]

    log_probs = no_padding_2_padding(model_output["log_probs"], data)
    task, metrics = get_policy_loss_fn(config.policy_loss.get("loss_mode", "vanilla"))(
        old_log_prob=data["old_log_probs"].to_padded_tensor(0),
        log_prob=log_probs,
        advantages=data["advantages"].to_padded_tensor(0),
        response_mask=mask,
        loss_agg_mode=mode,
        config=config,
        rollout_is_weights=weight,  # verl multiplies the tokens' losses by it
    )
    metrics = Metric.from_dict(metrics, aggregation=AggregationType.MEAN)
    metrics["actor/pg_loss"] = Metric(AggregationType.SUM, task.detach())
    terms = {"task": task}
    if model_output.get("entropy") is not None:
        entropy = no_padding_2_padding(model_output["entropy"], data)
        terms["entropy"] = -config.entropy_coeff * aggregated(entropy)
        metrics["entropy"] = _token_mean(entropy, mask, data)
    if config.use_kl_loss:
        estimate = kl_penalty(log_probs, data["ref_log_prob"].to_padded_tensor(0), config.kl_loss_type)
        terms["kl"] = config.kl_loss_coef * aggregated(estimate)
        metrics["kl"] = _token_mean(estimate, mask, data)
    return terms, metrics


def _token_mean(values: torch.Tensor, mask: torch.Tensor, data: Any) -> Metric:
    """Return these values' part of the mean over the response tokens of the mini-batch."""
    divisors = {"dp_size": data["dp_size"], "batch_num_tokens": data["batch_num_tokens"]}
    return Metric(AggregationType.SUM, agg_loss(values.detach(), mask, "token-mean", **divisors))


def scaled_value_loss(config: Any, model_output: Any, data: Any, dp_group: Any = None) -> tuple[Any, dict[str, Any]]:
    """Return verl's `value_loss` times the factor in `data` under SCALE (default 1), and its metrics, not scaled."""
    scale = tu.get_non_tensor_data(data=data, key=SCALE, default=1.0)
    loss, metrics = value_loss(config, model_output, data, dp_group)
    return loss * scale, metrics


def _set_rate(engine: Any, rate: float) -> None:
    """Set the learning rate of the next step; verl's scheduler then restores the configured one."""
    for group in engine.optimizer.param_groups:
        group["lr"] = rate


def gradient_norm(worker: Any, data: Any) -> Any:
    """Compute a mini-batch's gradient norm without a step; it is `grad_norm` in the output's metrics, before clipping.

    worker   verl's TrainingWorker. Its weights, optimiser and learning rate are unchanged; its gradients are cleared

    Returns what `worker.train_batch` returns: None in a process that reports no output.
    """
    engine = worker.engine

    def norm_only() -> float:
        gradients = [parameter.grad for parameter in engine.module.parameters() if parameter.grad is not None]
        norm: Any = torch.nn.utils.get_total_norm(gradients)
        engine.optimizer_zero_grad()
        return float(norm.full_tensor() if hasattr(norm, "full_tensor") else norm)

    engine.optimizer_step = norm_only  # in place of the method, for this call
    try:
        return worker.train_batch(data)
    finally:
        del engine.optimizer_step


class ActorWorker(ActorRolloutRefWorker):  # type: ignore[misc]
    """verl's worker for actor, rollout and reference, whose learning rate can be set."""

    @register(dispatch_mode=Dispatch.ONE_TO_ALL)  # type: ignore[untyped-decorator]
    def set_learning_rate(self, rate: float) -> None:
        _set_rate(self.actor.engine, rate)

    @register(dispatch_mode=make_nd_compute_dataproto_dispatch_fn(mesh_name="actor"))  # type: ignore[untyped-decorator]
    def gradient_norm(self, data: Any) -> Any:
        """Compute the policy's gradient norm, see the function of this name."""
        output = gradient_norm(self.actor, data)
        return None if output is None else output.cpu()


class CriticWorker(TrainingWorker):  # type: ignore[misc]
    """verl's worker for the critic, whose learning rate can be set."""

    @register(dispatch_mode=Dispatch.ONE_TO_ALL)  # type: ignore[untyped-decorator]
    def set_learning_rate(self, rate: float) -> None:
        _set_rate(self.engine, rate)
