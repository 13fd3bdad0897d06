"""The mutual-information proxies (section 2.3, Table 1): does the reasoning Z still depend on the prompt X?

The input is a matrix L[i, m], computed on the batch **before** filtering: the log-likelihood of reasoning i,
teacher-forced and summed over its tokens, under distinct prompt m.

**Columns and weights.** The paper's marginal runs over C columns: the P prompt groups in first-turn scope, the N
sampled items in trajectory scope. `merge_prompts` merges identical prompts into M distinct ones with weight w (number
of columns), so that log((1/C) sum_j exp L[i, j]) = log(sum_m (w_m / C) exp L[i, m]) takes fewer forward passes. Zeros
in a weight matrix [N, M] restrict reasoning i to its candidates, e.g. to prompts of the same turn.

**Two marginals per token.** The paper divides by |Z| after the log-sum-exp; the released code takes per-token means
first (suffix `_code`). z-scores with the suffix divide by the population's standard deviation (ddof 0), as the
released code does. The other z-scores divide by the sample's standard deviation (ddof 1).

**Retrieval.** argmax over the M distinct prompts. Exact ties share the credit evenly, so a policy that ignores its
prompt scores exactly chance, 1 / M. `retrieval_chance_code` is the released code's chance, the mean share of columns
equal to the own prompt. Retrieval above chance is no evidence of reasoning. Compare values only within one scope.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from plat.errors import RunError
from plat_rl.rl.config import MIConfig

FIRST_TURN = "first_turn"
TRAJECTORY = "trajectory"
RECALLS = (2, 4, 8)


@dataclass(frozen=True)
class Columns:
    """C prompts merged into M distinct ones, in order of first appearance.

    first   int64 [M]  a column that has this prompt
    index   int64 [C]  the distinct prompt of each column
    weight  float64 [M]  number of columns with this prompt; sums to C
    """

    first: NDArray[np.int64]
    index: NDArray[np.int64]
    weight: NDArray[np.float64]


def merge_prompts(prompts: Sequence[Hashable]) -> Columns:
    """Return the columns that result when equal prompts (texts, or tuples of token ids) are merged."""
    seen: dict[Hashable, int] = {}
    index = np.array([seen.setdefault(prompt, len(seen)) for prompt in prompts], dtype=np.int64)
    _, first = np.unique(index, return_index=True)
    return Columns(first.astype(np.int64), index, np.bincount(index, minlength=len(seen)).astype(np.float64))


def is_measured(step: int, config: MIConfig) -> bool:
    """Return True for iteration 1 and every multiple of `config.every`; False for all if that is 0."""
    return config.every > 0 and step > 0 and (step == 1 or step % config.every == 0)


def sample_first_turns(valid: NDArray[np.bool_], samples: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """Return the rising indices [n] of up to `samples` trajectories, drawn without replacement.

    valid  [N] True for a non-empty first reasoning
    """
    candidates = np.flatnonzero(valid)
    if candidates.size > samples:
        candidates = np.sort(rng.choice(candidates, samples, replace=False))
    return candidates.astype(np.int64)


def sample_turns(valid: NDArray[np.bool_], samples: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """Return pairs [n, 2] of (trajectory, turn), n = min(samples, number of valid turns), drawn with replacement.

    Each draw takes a trajectory with a valid turn, then one of its valid turns, both uniformly.

    valid  [N, T] True for a non-empty reasoning
    """
    trajectories = np.flatnonzero(valid.any(axis=1))
    n = min(samples, int(valid.sum()))
    if n == 0:
        return np.zeros((0, 2), dtype=np.int64)
    chosen = rng.choice(trajectories, n)
    counts = valid[chosen].sum(axis=1)
    nth = rng.integers(counts)  # which of the valid turns
    turn = np.argmax(np.cumsum(valid[chosen], axis=1) > nth[:, None], axis=1)
    return np.stack([chosen, turn], axis=1).astype(np.int64)


def mi_metrics(
    log_likelihood: torch.Tensor,
    own: NDArray[np.int64],
    tokens: NDArray[np.int64],
    weight: NDArray[np.float64],
    *,
    config: MIConfig,
    scope: str,
    sigmas: dict[str, float],
) -> dict[str, float]:
    """Return every metric of Table 1 for one scope, as `mi/<scope>/<name>`. Computed in float64 on the CPU.

    log_likelihood  [N, M] summed log-likelihood of reasoning i under distinct prompt m (nats)
    own             [N] the distinct prompt that reasoning i was sampled under
    tokens          [N] its number of tokens, >= 1
    weight          [M] or [N, M] how many prompts of the batch were merged into distinct prompt m
                    (`Columns.weight`); 0: m is no candidate for reasoning i
    sigmas          sigma_EMA by name, which this measurement changes: sigma_EMA(t) = alpha * sigma_EMA(t-1) +
                    (1 - alpha) * sigma(t) with `ema_alpha`; the first sigma is the start value

    Returns {} and leaves `sigmas` unchanged for fewer than two reasonings or distinct prompts, where nothing can be
    told apart. Raises RunError (class nan) if the log-likelihood of a candidate is not finite; other entries are
    ignored. Raises ValueError if `own` or `tokens` has a wrong shape or value, or an own prompt has weight 0.
    """
    scores = log_likelihood.detach().double().cpu()
    mine, length = torch.from_numpy(own).long(), torch.from_numpy(tokens).double()
    n, m = scores.shape
    if mine.shape != (n,) or length.shape != (n,) or (n and (length.min() < 1 or mine.min() < 0 or mine.max() >= m)):
        raise ValueError(f"own and tokens must be [{n}], with prompts below {m} and at least one token")
    if n < 2 or m < 2:
        return {}
    weights = torch.from_numpy(weight).double().expand(n, m)
    if not torch.isfinite(scores[weights > 0]).all():
        raise RunError("a cross-scored log-likelihood is not a finite number", failure_class="nan")

    rows = torch.arange(n)
    columns = weights.sum(dim=1)
    log_prior = (weights / columns[:, None]).log()  # -inf where a prompt is no candidate
    own_prior = log_prior[rows, mine]
    if not torch.isfinite(own_prior).all():
        raise ValueError("every reasoning needs its own prompt among its candidates")
    scores = torch.where(weights > 0, scores, -torch.inf)
    matched_seq = scores[rows, mine]
    marginal_seq = torch.logsumexp(scores + log_prior, dim=1)

    result = _retrieval(scores, mine, weights)
    result["h_z_given_x"] = -(matched_seq / length).mean()
    result["h_z_given_x_seq"] = -matched_seq.mean()
    result["h_z_seq"] = -marginal_seq.mean()
    result["mi_seq_est"] = (matched_seq - marginal_seq).mean()
    result["upper_bound"] = -own_prior.mean()  # log C when no prompt is repeated

    def z_score(difference: torch.Tensor, sigma: float | torch.Tensor) -> torch.Tensor:
        return (difference / (sigma + config.eps)).mean()

    def per_token(marginal: torch.Tensor, suffix: str, ddof: int) -> None:
        difference = matched_seq / length - marginal
        sigma, name = float(marginal.std(correction=ddof)), f"{scope}{suffix}"
        sigmas[name] = config.ema_alpha * sigmas.get(name, sigma) + (1 - config.ema_alpha) * sigma
        result[f"h_z{suffix}"] = -marginal.mean()
        result[f"mi_est{suffix}"] = difference.mean()
        result[f"mi_zscore{suffix}"] = z_score(difference, sigma)
        result[f"mi_zscore_ema{suffix}"] = z_score(difference, sigmas[name])

    per_token(marginal_seq / length, "", ddof=1)
    result["mi_zscore_seq"] = z_score(matched_seq - marginal_seq, marginal_seq.std(correction=1))
    if config.released_marginal:
        per_token(torch.logsumexp(scores / length[:, None] + log_prior, dim=1), "_code", ddof=0)
        result["retrieval_chance_code"] = own_prior.exp().mean()
    return {f"mi/{scope}/{name}": float(value) for name, value in result.items()}


def retrieval_credit(scores: torch.Tensor, own: torch.Tensor, k: int = 1) -> torch.Tensor:
    """Return float64 [N]: 1 if a reasoning's own prompt is among the k likeliest, 0 if not, between for exact ties.

    scores  [N, M] log-likelihood of reasoning i under candidate m;  own  int64 [N] its own candidate

    With b candidates strictly better than the own one and t equal to it (itself included), the credit is (k - b) / t,
    limited to [0, 1]: its expectation when ties break at random.
    """
    mine = scores.gather(1, own[:, None])
    better = (scores > mine).sum(dim=1)
    tied = (scores == mine).sum(dim=1)
    return ((k - better).double() / tied).clamp(0, 1)


def _retrieval(scores: torch.Tensor, own: torch.Tensor, weights: torch.Tensor) -> dict[str, torch.Tensor]:
    """Return the retrieval accuracy, its chance, their difference and Recall@k."""
    accuracy = retrieval_credit(scores, own).mean()
    chance = (1.0 / (weights > 0).sum(dim=1).double()).mean()
    result = {"retrieval_acc": accuracy, "retrieval_chance": chance, "retrieval_above_chance": accuracy - chance}
    result.update({f"recall_at_{k}": retrieval_credit(scores, own, k).mean() for k in RECALLS})
    return result
