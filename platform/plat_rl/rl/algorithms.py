"""Compute the advantages and losses of an `AlgorithmConfig` (appendix B.2), equal to verl's to the bit.

Shapes: N sequences (a whole trajectory each, all its turns in one row), T tokens; `mask` is 1 on tokens the policy
wrote and 0 on observations and padding. A loss is divided by the tokens (token-mean) or the sequences (the three
seq-mean modes) that are in the mini-batch, so dropping prompts does not shrink it; only `FilterConfig.scale` does.

`dapo_released` (GAE, critic, token-mean, clip .2/.28) is PPO under another name; DAPO adds `dynamic_sampling`.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from plat.errors import RunError
from plat_rl.rl import losses
from plat_rl.rl.config import AlgorithmConfig
from plat_rl.rl.losses import WHOLE, Aggregation


def advantages(
    config: AlgorithmConfig,
    token_rewards: Tensor,
    mask: Tensor,
    group_ids: Tensor | np.ndarray | Sequence[int],
    values: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """Return advantages and returns, both [N, T], without gradient, in the mask's dtype (torch's default for integers).

    token_rewards  [N, T], 0 where the mask is 0;  mask  [N, T]
    group_ids      [N] the prompt of each sequence
    values         [N, T] of the critic; GAE only

    gae: generalised advantages over the mask-1 tokens with gamma and lam, whitened over the rows given (so over the
    *kept* prompts); results where the mask is 0 mean nothing. grpo: (return - mean of its group) / (max(std of its
    group, `std_floor`) + 1e-6), or without the division (Dr. GRPO); a group of one has the raw return. The returns of
    grpo are its advantages, and both are 0 where the mask is 0.

    Raises RunError (class nan) if a reward, or a value where the mask is 1, is not finite; RunError for fewer than two
    tokens with gae, which cannot be whitened; ValueError for a reward on a mask-0 token, or gae without values.
    """
    dtype = mask.dtype if mask.is_floating_point() else torch.get_default_dtype()
    # float64: in float32 the mean of equal returns is off by a bit. Over a std of 1e-6 that bit becomes an advantage of
    # up to 0.5 for every trajectory of a prompt without spread.
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
        estimates, returns = losses.gae(rewards, values, mask, config.gamma, config.lam)
    else:
        index = np.asarray(torch.as_tensor(group_ids).cpu())
        estimates = losses.group_relative(rewards.sum(1), index, config)[:, None] * mask
        returns = estimates
    return estimates.to(dtype), returns.to(dtype)


def policy_loss(
    config: AlgorithmConfig, old_logp: Tensor, logp: Tensor, advantages: Tensor, mask: Tensor, by: Aggregation = WHOLE
) -> tuple[Tensor, dict[str, float]]:
    """Return PPO's loss, clipped at 1 - clip_low and 1 + clip_high, dual clip at clip_c, aggregated by `loss_agg`.

    All tensors [N, T]. `by` has the divisors where the rows are a part of a mini-batch. Metrics: pg_loss (the loss);
    means over the tokens of these rows: clip_fraction (share of tokens whose clipped term is the larger),
    clip_fraction_lower (share with a dual clip), ppo_kl (old_logp - logp).
    """
    limits = (config.clip_low, config.clip_high, config.clip_c)
    terms, metrics = losses.clipped(old_logp, logp, advantages, mask, limits)
    loss = losses.aggregate(terms, mask, config.loss_agg, by)
    return loss, {"pg_loss": loss.item(), **metrics}


def kl_loss(
    config: AlgorithmConfig, logp: Tensor, ref_logp: Tensor, mask: Tensor, by: Aggregation = WHOLE
) -> tuple[Tensor, dict[str, float]]:
    """Return kl_coef times the aggregated KL estimate of `kl_kind` (kl, abs, mse, low_var_kl) to the reference.

    Tensors [N, T]. The metric kl is the estimate's mean over the tokens of these rows, before the coefficient.
    """
    estimate = losses.kl_estimate(logp, ref_logp, config.kl_kind)
    penalty = config.kl_coef * losses.aggregate(estimate, mask, config.loss_agg, by)
    return penalty, {"kl": _token_mean(estimate, mask)}


def entropy_bonus(
    config: AlgorithmConfig, token_entropy: Tensor, mask: Tensor, by: Aggregation = WHOLE
) -> tuple[Tensor, dict[str, float]]:
    """Return entropy_coef times the aggregated policy entropy (nats). *Subtract* it from the loss.

    Tensors [N, T]. The metric entropy is the mean over these rows' tokens under every aggregation, without coefficient.
    """
    bonus = config.entropy_coef * losses.aggregate(token_entropy, mask, config.loss_agg, by)
    return bonus, {"entropy": _token_mean(token_entropy, mask)}


def value_loss(
    config: AlgorithmConfig,
    predicted: Tensor,
    returns: Tensor,
    old_values: Tensor,
    mask: Tensor,
    by: Aggregation = WHOLE,
) -> tuple[Tensor, dict[str, float]]:
    """Return half the larger squared error with and without clipping to old_values +- value_clip, as a token mean.

    The mean does not depend on `loss_agg`, which is the actor's. Tensors [N, T]. Metrics: value_loss (the loss);
    value_clip_fraction, the share of these rows' tokens where the error with clipping is the larger.
    """
    errors, clipped = losses.clipped_errors(predicted, returns, old_values, mask, config.value_clip)
    loss = 0.5 * losses.aggregate(errors, mask, "token-mean", by)
    return loss, {"value_loss": loss.item(), "value_clip_fraction": clipped}


def actor_loss(
    config: AlgorithmConfig,
    old_logp: Tensor,
    logp: Tensor,
    advantages: Tensor,
    mask: Tensor,
    *,
    token_entropy: Tensor | None = None,
    ref_logp: Tensor | None = None,
    by: Aggregation = WHOLE,
) -> tuple[Tensor, dict[str, float]]:
    """Return the objective of section 2.1: policy loss - entropy_coef * entropy + kl_coef * KL, all aggregated alike.

    The metrics are those of `policy_loss`, and `entropy` and `kl` where their tensors are given.
    Raises ValueError if token_entropy is missing with a non-zero entropy_coef, or ref_logp with a non-zero kl_coef.
    """
    loss, metrics = policy_loss(config, old_logp, logp, advantages, mask, by)
    if token_entropy is not None:
        bonus, bonus_metrics = entropy_bonus(config, token_entropy, mask, by)
        loss, metrics = loss - bonus, metrics | bonus_metrics
    elif config.entropy_coef:
        raise ValueError("entropy_coef is not 0: token_entropy is needed")
    if ref_logp is not None:
        penalty, kl_metrics = kl_loss(config, logp, ref_logp, mask, by)
        loss, metrics = loss + penalty, metrics | kl_metrics
    elif config.kl_coef:
        raise ValueError("kl_coef is not 0: ref_logp is needed")
    return loss, metrics


def _token_mean(values: Tensor, mask: Tensor) -> float:
    with torch.no_grad():
        return float((values * mask).sum() / mask.sum().clamp(min=1))
