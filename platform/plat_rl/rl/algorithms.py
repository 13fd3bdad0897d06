"""Compute the advantages and losses of an `AlgorithmConfig` (appendix B.2), equal to verl's to the bit.

Shapes: N sequences (a whole trajectory each, all its turns in one row), T tokens; `mask` is 1 on tokens the policy
wrote and 0 on observations and padding. A loss is divided by the tokens (token-mean) or the sequences (the three
seq-mean modes) that are in the mini-batch, so dropping prompts does not shrink it; only `FilterConfig.scale` does.

`dapo_released` (GAE, critic, token-mean, clip .2/.28) is PPO under another name; DAPO adds `dynamic_sampling`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from plat.errors import RunError
from plat_rl.rl.config import AlgorithmConfig

# The formulas (tests/plat_rl/rl/test_rl_like_verl.py compares them with verl's); then the algorithms made of them.

EPSILON = 1e-6  # added to the standard deviation of a group


@dataclass(frozen=True)
class Aggregation:
    """The divisors of a loss. With all of them None, the rows are the whole mini-batch.

    batch_tokens       mask tokens of the whole mini-batch (token-mean), when the rows are a micro-batch of it
    batch_sequences    its sequences with at least one token (the seq-mean modes)
    loss_scale_factor  constant of seq-mean-token-sum-norm, e.g. the most tokens a trajectory may have. It is required
                       there, because the padded width changes from batch to batch
    """

    batch_tokens: int | None = None
    batch_sequences: int | None = None
    loss_scale_factor: int | None = None


WHOLE = Aggregation()


def masked_sum(values: Tensor, mask: Tensor) -> Tensor:
    """Return the sum of values * mask; values where the mask is 0 do not count, even if they are NaN."""
    return (torch.where(mask.bool(), values, 0.0) * mask).sum()


def masked_mean(values: Tensor, mask: Tensor) -> Tensor:
    """Return `masked_sum` / (sum of the mask + 1e-8): 0 for an empty mask."""
    return masked_sum(values, mask) / (mask.sum() + 1e-8)


def whitened(values: Tensor, mask: Tensor) -> Tensor:
    """Return all values, shifted and scaled to mean 0 and (unbiased) variance 1 over the mask (at least two tokens)."""
    centred = values - masked_mean(values, mask)
    variance = masked_mean(centred**2, mask) * (mask.sum() / (mask.sum() - 1))
    return centred * torch.rsqrt(variance + 1e-8)


def gae(rewards: Tensor, values: Tensor, mask: Tensor, gamma: float, lam: float) -> tuple[Tensor, Tensor]:
    """Return generalised advantages, whitened over the mask, and returns, both [N, T] (Schulman et al. 2016).

    The returns are values + advantages before whitening. Tokens with mask 0 are skipped: the next value and the next
    advantage are those of the next token with mask 1. Results at mask-0 tokens mean nothing.
    """
    following, advantage = torch.zeros_like(rewards[:, 0]), torch.zeros_like(rewards[:, 0])
    backwards = []
    for t in reversed(range(rewards.shape[1])):
        error = rewards[:, t] + gamma * following - values[:, t]
        reached = error + gamma * lam * advantage
        following = values[:, t] * mask[:, t] + (1 - mask[:, t]) * following
        advantage = reached * mask[:, t] + (1 - mask[:, t]) * advantage
        backwards.append(advantage)
    estimates = torch.stack(backwards[::-1], dim=1)
    return whitened(estimates, mask), estimates + values


def group_relative(totals: Tensor, groups: NDArray[np.int64], config: AlgorithmConfig) -> Tensor:
    """Return (return - mean of the group) / (max(std of the group, std_floor) + 1e-6), [N] from returns [N].

    Without `norm_by_std` nothing is divided (Dr. GRPO). A group of one keeps its return.
    """
    estimates = totals.clone()
    for group in np.unique(groups):
        members = torch.from_numpy(np.flatnonzero(groups == group)).to(totals.device)
        alone, mine = len(members) == 1, totals[members]
        if not alone:
            estimates[members] = mine - mine.mean()
        if config.norm_by_std and config.std_floor > 0 and not alone:
            estimates[members] /= mine.std().clamp(min=config.std_floor) + EPSILON
        elif config.norm_by_std and not config.std_floor > 0:
            # verl divides a group of one by a float32 1.000001
            estimates[members] /= (torch.tensor(1.0) if alone else mine.std()) + EPSILON
    return estimates


def clipped(
    old_logp: Tensor, logp: Tensor, advantages: Tensor, mask: Tensor, limits: tuple[float, float, float]
) -> tuple[Tensor, dict[str, float]]:
    """Return PPO's clipped loss of each token [N, T] with a dual clip for negative advantages (Ye et al. 2020).

    The metrics are clip_fraction, clip_fraction_lower and ppo_kl, as in `plat_rl.rl.algorithms.policy_loss`.

    limits  (low, high, c): the ratio is clipped to [1 - low, 1 + high]. Where the advantage is negative, the loss is
            at most -c * advantage
    """
    low, high, c = limits
    change = torch.clamp(logp - old_logp, min=-20.0, max=20.0)  # exp does not overflow
    ratio = torch.exp(change)
    plain = -advantages * ratio
    bounded = -advantages * torch.clamp(ratio, 1 - low, 1 + high)
    larger, limit = torch.maximum(plain, bounded), -advantages * c
    lower = torch.gt(larger, limit) * (advantages < 0).float()
    metrics = {
        "clip_fraction": masked_mean(torch.gt(bounded, plain).float(), mask).item(),
        "clip_fraction_lower": masked_mean(lower, mask).item(),
        "ppo_kl": masked_mean(-change, mask).item(),
    }
    return torch.where(advantages < 0, torch.min(limit, larger), larger), metrics


def kl_estimate(logp: Tensor, ref_logp: Tensor, kind: str) -> Tensor:
    """Return an estimate of KL(policy || reference) for each token [N, T] (Schulman 2020).

    kind  kl: d = logp - ref_logp; abs: |d|; mse: d^2 / 2; low_var_kl: exp(-d) + d - 1, limited to 10.
          Raises ValueError for another one
    """
    if kind == "kl":
        return logp - ref_logp
    if kind == "abs":
        return (logp - ref_logp).abs()
    if kind == "mse":
        return 0.5 * (logp - ref_logp).square()
    if kind == "low_var_kl":
        back = torch.clamp(ref_logp - logp, min=-20, max=20)
        return torch.clamp(torch.exp(back) - back - 1, min=-10, max=10)
    raise ValueError(f"unknown estimator of the KL divergence {kind!r}")


def clipped_errors(
    predicted: Tensor, returns: Tensor, old_values: Tensor, mask: Tensor, clip: float
) -> tuple[Tensor, float]:
    """Return the critic's squared error of each token [N, T], and the share of tokens where the clipped one is larger.

    The error is the larger one of the prediction and of the prediction limited to old_values +- clip.
    """
    limited = torch.max(torch.min(predicted, old_values + clip), old_values - clip)
    plain, bounded = (predicted - returns) ** 2, (limited - returns) ** 2
    return torch.max(plain, bounded), float(masked_mean(torch.gt(bounded, plain).float(), mask))


def aggregate(values: Tensor, mask: Tensor, mode: str, by: Aggregation = WHOLE) -> Tensor:
    """Return one number from values [N, T]; NaN if no token counts and `by` has no divisor.

    token-mean                mean over tokens
    seq-mean-token-mean       mean over sequences of their means over tokens
    seq-mean-token-sum        mean over sequences of their sums
    seq-mean-token-sum-norm   that, divided by `loss_scale_factor`

    `by` replaces the number of tokens (token-mean) or of sequences (the others) that a mean divides by. Raises
    ValueError for an unknown mode, and for the last mode without a factor.
    """
    if mode == "token-mean":
        return masked_sum(values, mask) / (mask.sum() if by.batch_tokens is None else by.batch_tokens)
    tokens, sums = torch.sum(mask, dim=-1), torch.sum(values * mask, dim=-1)
    if mode == "seq-mean-token-mean":
        sums = sums / (tokens + 1e-8)
    elif mode not in ("seq-mean-token-sum", "seq-mean-token-sum-norm"):
        raise ValueError(f"unknown aggregation {mode!r}")
    present = (tokens > 0).float()  # sequences without a token do not count
    loss = masked_sum(sums, present) / (present.sum() if by.batch_sequences is None else by.batch_sequences)
    if mode == "seq-mean-token-sum-norm":
        if by.loss_scale_factor is None:
            raise ValueError("seq-mean-token-sum-norm needs an explicit loss_scale_factor")
        loss = loss / by.loss_scale_factor
    return loss


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
        estimates, returns = gae(rewards, values, mask, config.gamma, config.lam)
    else:
        index = np.asarray(torch.as_tensor(group_ids).cpu())
        estimates = group_relative(rewards.sum(1), index, config)[:, None] * mask
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
    terms, metrics = clipped(old_logp, logp, advantages, mask, limits)
    loss = aggregate(terms, mask, config.loss_agg, by)
    return loss, {"pg_loss": loss.item(), **metrics}


def kl_loss(
    config: AlgorithmConfig, logp: Tensor, ref_logp: Tensor, mask: Tensor, by: Aggregation = WHOLE
) -> tuple[Tensor, dict[str, float]]:
    """Return kl_coef times the aggregated KL estimate of `kl_kind` (kl, abs, mse, low_var_kl) to the reference.

    Tensors [N, T]. The metric kl is the estimate's mean over the tokens of these rows, before the coefficient.
    """
    estimate = kl_estimate(logp, ref_logp, config.kl_kind)
    penalty = config.kl_coef * aggregate(estimate, mask, config.loss_agg, by)
    return penalty, {"kl": _token_mean(estimate, mask)}


def entropy_bonus(
    config: AlgorithmConfig, token_entropy: Tensor, mask: Tensor, by: Aggregation = WHOLE
) -> tuple[Tensor, dict[str, float]]:
    """Return entropy_coef times the aggregated policy entropy (nats). *Subtract* it from the loss.

    Tensors [N, T]. The metric entropy is the mean over these rows' tokens under every aggregation, without coefficient.
    """
    bonus = config.entropy_coef * aggregate(token_entropy, mask, config.loss_agg, by)
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
    errors, clipped = clipped_errors(predicted, returns, old_values, mask, config.value_clip)
    loss = 0.5 * aggregate(errors, mask, "token-mean", by)
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
