"""Advantages and losses: verl's registered functions behind one `AlgorithmConfig` (appendix B.2).

Shapes: N sequences (a whole trajectory each, all its turns in one row), T tokens; `mask` is 1 on tokens the policy
wrote and 0 on observations and padding. Token rewards must lie on mask-1 tokens: GAE discards any other. verl is
imported inside functions (seconds, once).

**Implicit loss scale of a kept subset.** `agg_loss` here divides by what is really in the
mini-batch, its tokens (token-mean) or its sequences (the three seq-mean modes): dropping prompts never shrinks the
loss by itself, the only scale is `FilterConfig.scale`. verl's own trainer divides the seq-mean modes by the
*configured* mini-batch instead, which scales the loss by the kept share: `implicit_loss_scale`.

`dapo_released` (GAE, critic, token-mean, clip .2/.28) is PPO under another name; DAPO proper adds `dynamic_sampling`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import torch

from plat.errors import RunError
from plat.rl.config import AlgorithmConfig
from plat.rl.dynamic_sampling import Refills, uninformative

__all__ = [
    "Aggregation",
    "Refills",
    "actor_loss",
    "advantages",
    "entropy_bonus",
    "implicit_loss_scale",
    "kl_loss",
    "policy_loss",
    "uninformative",
    "value_loss",
]


@dataclass(frozen=True)
class Aggregation:
    """What a loss is divided by, beyond the rows at hand. All None: the rows are the whole mini-batch.

    batch_tokens       mask tokens of the whole mini-batch (token-mean), when the rows are a micro-batch of it
    batch_sequences    its sequences with at least one token (the seq-mean modes)
    loss_scale_factor  constant of seq-mean-token-sum-norm, e.g. the most tokens a trajectory may have; required there,
                       because the default of verl, the padded width, changes from batch to batch
    """

    batch_tokens: int | None = None
    batch_sequences: int | None = None
    loss_scale_factor: int | None = None

    def info(self, mode: str) -> dict[str, Any]:
        """As keyword arguments of verl's agg_loss."""
        if mode == "seq-mean-token-sum-norm" and self.loss_scale_factor is None:
            raise ValueError("seq-mean-token-sum-norm needs an explicit loss_scale_factor")
        return {
            "batch_num_tokens": self.batch_tokens,
            "global_batch_size": self.batch_sequences,
            "loss_scale_factor": self.loss_scale_factor,
        }


WHOLE = Aggregation()


def advantages(
    config: AlgorithmConfig,
    token_rewards: torch.Tensor,
    mask: torch.Tensor,
    group_ids: torch.Tensor | np.ndarray | Sequence[int],
    values: torch.Tensor | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Advantages and returns, both [N, T], without gradient.

    token_rewards  [N, T];  mask  [N, T]
    group_ids      [N] the prompt of each sequence
    values         [N, T] of the critic; GAE only

    gae: generalised advantages over the mask-1 tokens with gamma and lam, whitened over the rows given (so over the
    *kept* prompts). grpo: (return - mean of its group) / (max(std of its group, `std_floor`) + 1e-6), or without the
    division (Dr. GRPO); a group of one has the raw return.

    Computed in float64 and returned in the mask's dtype: in float32 the mean of equal returns is off by a bit, and
    over a std of 1e-6 that bit becomes an advantage of up to 0.5 for every trajectory of a prompt without any spread.

    RunError (nan): rewards or values are not finite. RunError: fewer than two tokens, which cannot be whitened.
    """
    dtype = mask.dtype if mask.is_floating_point() else torch.get_default_dtype()
    rewards, mask = token_rewards.double(), mask.double()
    if bool(((rewards != 0) & (mask == 0)).any()):
        raise ValueError("token rewards must lie on tokens that the policy wrote (mask 1)")
    if not bool(torch.isfinite(rewards).all()):
        raise RunError("a reward is not a finite number", failure_class="nan")
    if config.advantage == "gae":
        if values is None:
            raise ValueError("gae needs the critic's values")
        values = values.detach().double()
        if not bool(torch.isfinite(values[mask > 0]).all()):
            raise RunError("a value of the critic is not a finite number", failure_class="nan")
        if float(mask.sum()) < 2:
            raise RunError("fewer than two response tokens in the batch: advantages cannot be whitened")
        estimates, returns = _estimator("gae")(rewards, values, mask, config.gamma, config.lam)
    else:
        index = np.asarray(torch.as_tensor(group_ids).cpu())
        has_floor = config.norm_by_std and config.std_floor > 0
        by_std = config.norm_by_std and not has_floor
        estimates, returns = _estimator("grpo")(rewards, mask, index, norm_adv_by_std_in_grpo=by_std)
        if has_floor:
            estimates = returns = estimates / _floored_stds(rewards.sum(1), index, config.std_floor)[:, None]
    return estimates.to(dtype), returns.to(dtype)


def _floored_stds(totals: torch.Tensor, groups: np.ndarray, floor: float) -> torch.Tensor:
    """What verl's estimator divides by, with a floor: [N] from the returns [N] of each sequence."""
    divisors = torch.ones_like(totals)  # a group of one is not divided
    for group in np.unique(groups):
        members = torch.from_numpy(np.flatnonzero(groups == group)).to(totals.device)
        if len(members) > 1:
            divisors[members] = totals[members].std().clamp(min=floor) + 1e-6
    return divisors


def policy_loss(
    config: AlgorithmConfig,
    old_logp: torch.Tensor,
    logp: torch.Tensor,
    advantages: torch.Tensor,
    mask: torch.Tensor,
    aggregation: Aggregation = WHOLE,
) -> tuple[torch.Tensor, dict[str, float]]:
    """verl's "vanilla" loss: PPO clipped at 1 - clip_low and 1 + clip_high, dual clip at clip_c, aggregated by
    `loss_agg`.

    All tensors [N, T]. Metrics: pg_loss; clip_fraction (tokens whose clipped term won), clip_fraction_lower (dual
    clip), ppo_kl (mean of old_logp - logp).
    """
    actor = _actor_config(config.clip_low, config.clip_high, config.clip_c)
    actor.global_batch_info.clear()
    actor.global_batch_info.update(aggregation.info(config.loss_agg))
    loss, metrics = _vanilla()(old_logp, logp, advantages, mask, config.loss_agg, actor)
    return loss, {
        "pg_loss": loss.item(),
        "clip_fraction": metrics["actor/pg_clipfrac"],
        "clip_fraction_lower": metrics["actor/pg_clipfrac_lower"],
        "ppo_kl": metrics["actor/ppo_kl"],
    }


def kl_loss(
    config: AlgorithmConfig,
    logp: torch.Tensor,
    ref_logp: torch.Tensor,
    mask: torch.Tensor,
    aggregation: Aggregation = WHOLE,
) -> tuple[torch.Tensor, dict[str, float]]:
    """kl_coef times the aggregated KL estimate of `kl_kind` (kl, abs, mse, low_var_kl) to the reference; metric kl is
    its token mean, before the coefficient. Tensors [N, T]."""
    estimate = _core_algos().kl_penalty(logp, ref_logp, config.kl_kind)
    return config.kl_coef * _aggregate(estimate, mask, config.loss_agg, aggregation), {
        "kl": _token_mean(estimate, mask)
    }


def entropy_bonus(
    config: AlgorithmConfig, token_entropy: torch.Tensor, mask: torch.Tensor, aggregation: Aggregation = WHOLE
) -> tuple[torch.Tensor, dict[str, float]]:
    """entropy_coef times the aggregated policy entropy (nats), to be *subtracted* from the loss; metric entropy is
    the token mean whatever the aggregation, so that algorithms compare. token_entropy, mask: [N, T]."""
    bonus = config.entropy_coef * _aggregate(token_entropy, mask, config.loss_agg, aggregation)
    return bonus, {"entropy": _token_mean(token_entropy, mask)}


def value_loss(
    config: AlgorithmConfig,
    predicted: torch.Tensor,
    returns: torch.Tensor,
    old_values: torch.Tensor,
    mask: torch.Tensor,
    aggregation: Aggregation = WHOLE,
) -> tuple[torch.Tensor, dict[str, float]]:
    """verl's value loss: half the larger of the squared errors with and without clipping to old_values +- value_clip,
    as a token mean (the critic's aggregation does not follow the actor's). Tensors [N, T]."""
    loss, clipped = _core_algos().compute_value_loss(
        vpreds=predicted,
        returns=returns,
        values=old_values,
        response_mask=mask,
        cliprange_value=config.value_clip,
        loss_agg_mode="token-mean",
        **aggregation.info("token-mean"),
    )
    return loss, {"value_loss": loss.item(), "value_clip_fraction": float(clipped)}


def actor_loss(
    config: AlgorithmConfig,
    old_logp: torch.Tensor,
    logp: torch.Tensor,
    advantages: torch.Tensor,
    mask: torch.Tensor,
    *,
    token_entropy: torch.Tensor | None = None,
    ref_logp: torch.Tensor | None = None,
    aggregation: Aggregation = WHOLE,
) -> tuple[torch.Tensor, dict[str, float]]:
    """The whole objective of section 2.1: policy loss - entropy_coef * entropy + kl_coef * KL, each aggregated alike.

    token_entropy may be left out when entropy_coef is 0, ref_logp when kl_coef is 0.
    """
    loss, metrics = policy_loss(config, old_logp, logp, advantages, mask, aggregation)
    if token_entropy is not None:
        bonus, bonus_metrics = entropy_bonus(config, token_entropy, mask, aggregation)
        loss, metrics = loss - bonus, metrics | bonus_metrics
    elif config.entropy_coef:
        raise ValueError("entropy_coef is not 0: token_entropy is needed")
    if ref_logp is not None:
        penalty, kl_metrics = kl_loss(config, logp, ref_logp, mask, aggregation)
        loss, metrics = loss + penalty, metrics | kl_metrics
    elif config.kl_coef:
        raise ValueError("kl_coef is not 0: ref_logp is needed")
    return loss, metrics


def implicit_loss_scale(loss_agg: str, kept_share: float) -> float:
    """By what verl's own trainer scales the loss when only `kept_share` of its configured mini-batch is real."""
    return 1.0 if loss_agg == "token-mean" else kept_share


def _aggregate(values: torch.Tensor, mask: torch.Tensor, mode: str, aggregation: Aggregation) -> torch.Tensor:
    loss: torch.Tensor = _core_algos().agg_loss(values, mask, mode, **aggregation.info(mode))
    return loss


def _token_mean(values: torch.Tensor, mask: torch.Tensor) -> float:
    with torch.no_grad():
        return float((values * mask).sum() / mask.sum().clamp(min=1))


@cache
def _core_algos() -> Any:
    from verl.trainer.ppo import core_algos

    return core_algos


@cache
def _estimator(name: str) -> Callable[..., tuple[torch.Tensor, torch.Tensor]]:
    estimator: Callable[..., tuple[torch.Tensor, torch.Tensor]] = _core_algos().get_adv_estimator_fn(name)
    return estimator


@cache
def _vanilla() -> Callable[..., tuple[torch.Tensor, dict[str, Any]]]:
    loss: Callable[..., tuple[torch.Tensor, dict[str, Any]]] = _core_algos().get_policy_loss_fn("vanilla")
    return loss


@cache
def _actor_config(clip_low: float, clip_high: float, clip_c: float) -> Any:
    """verl's config object is slow to build and frozen; only its dict of divisors is refilled for each call."""
    from verl.workers.config import ActorConfig

    return ActorConfig(
        strategy="fsdp",  # required, not used by the loss
        rollout_n=1,
        use_dynamic_bsz=True,
        clip_ratio=clip_low,
        clip_ratio_low=clip_low,
        clip_ratio_high=clip_high,
        clip_ratio_c=clip_c,
    )
