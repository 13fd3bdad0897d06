"""The mutual-information proxies (section 2.3, Table 1): does the reasoning Z still depend on the prompt X?

Input is a cross-scoring matrix L[i, m]: the log-likelihood of reasoning i, teacher-forced and summed over its tokens,
under distinct prompt m. It is computed on the batch **before** filtering.

**Columns and weights.** The paper's marginal runs over C columns: the P prompt groups in first-turn scope, the N
sampled items themselves in trajectory scope. Identical prompts are merged (`merge_prompts`) into M distinct ones,
each with the number of columns it stands for as its weight w, so that log((1/C) sum_j exp L[i, j]) = log(sum_m
(w_m / C) exp L[i, m]) with fewer forward passes. A weight matrix [N, M] with zeros restricts reasoning i to its own
candidates, e.g. to prompts of its own turn.

**Two marginals per token.** The paper divides by |Z| after the log-sum-exp; the released code takes per-token means
first. The second has the suffix `_code`; its z-scores divide by the population's standard deviation (ddof 0), as the
released code does, the others by the sample's (ddof 1).

**Retrieval.** argmax over the M distinct prompts. Exact ties share the credit evenly, so a policy that ignores its
prompt scores exactly chance, 1 / M (`retrieval_chance_code`: the released code's, the mean share of columns equal to
one's own). Retrieval above chance is no evidence of reasoning, and values compare only within a scope.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from numpy.typing import NDArray

from plat.errors import RunError
from plat.rl.config import MIConfig

FIRST_TURN = "first_turn"
TRAJECTORY = "trajectory"
RECALLS = (2, 4, 8)


@dataclass(frozen=True)
class Columns:
    """C prompts merged into M distinct ones, in order of first appearance.

    first   int64 [M]  a column that has this prompt
    index   int64 [C]  the distinct prompt of each column
    weight  float64 [M]  how many columns have it; sums to C
    """

    first: NDArray[np.int64]
    index: NDArray[np.int64]
    weight: NDArray[np.float64]


def merge_prompts(prompts: Sequence[Hashable]) -> Columns:
    """Merge equal prompts (texts, or tuples of token ids)."""
    seen: dict[Hashable, int] = {}
    index = np.array([seen.setdefault(prompt, len(seen)) for prompt in prompts], dtype=np.int64)
    _, first = np.unique(index, return_index=True)
    return Columns(first.astype(np.int64), index, np.bincount(index, minlength=len(seen)).astype(np.float64))


def is_measured(step: int, config: MIConfig) -> bool:
    """Whether iteration `step` (from 1) is measured: the first one and every `every`-th."""
    return config.every > 0 and step > 0 and (step == 1 or step % config.every == 0)


def sample_first_turns(valid: NDArray[np.bool_], samples: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """Up to `samples` trajectories with a non-empty first reasoning, without replacement.

    valid [N] -> indices [n], rising."""
    candidates = np.flatnonzero(valid)
    if candidates.size > samples:
        candidates = np.sort(rng.choice(candidates, samples, replace=False))
    return candidates.astype(np.int64)


def sample_turns(valid: NDArray[np.bool_], samples: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """Trajectory-uniform sampling with replacement: a trajectory that has a non-empty reasoning, then one of its turns
    that have, both uniformly; min(samples, number of such turns) times.

    valid [N, T] -> pairs [n, 2] of (trajectory, turn)."""
    trajectories = np.flatnonzero(valid.any(axis=1))
    n = min(samples, int(valid.sum()))
    if n == 0:
        return np.zeros((0, 2), dtype=np.int64)
    chosen = rng.choice(trajectories, n)
    counts = valid[chosen].sum(axis=1)
    nth = rng.integers(counts)  # which of the valid turns
    turn = np.argmax(np.cumsum(valid[chosen], axis=1) > nth[:, None], axis=1)
    return np.stack([chosen, turn], axis=1).astype(np.int64)


@dataclass
class SigmaEMA:
    """sigma_EMA(t) = alpha * sigma_EMA(t-1) + (1 - alpha) * sigma(t), by name; the first sigma starts it."""

    alpha: float
    sigmas: dict[str, float] = field(default_factory=dict)

    def update(self, name: str, sigma: float) -> float:
        previous = self.sigmas.get(name, sigma)
        self.sigmas[name] = self.alpha * previous + (1 - self.alpha) * sigma
        return self.sigmas[name]

    def to_dict(self) -> dict[str, float]:
        return dict(self.sigmas)

    @classmethod
    def from_dict(cls, alpha: float, state: Mapping[str, float]) -> SigmaEMA:
        return cls(alpha, {name: float(sigma) for name, sigma in state.items()})


def mi_metrics(
    log_likelihood: torch.Tensor,
    own: torch.Tensor | NDArray[np.int64],
    tokens: torch.Tensor | NDArray[np.int64],
    weight: torch.Tensor | NDArray[np.float64] | None = None,
    *,
    config: MIConfig,
    scope: str,
    ema: SigmaEMA,
) -> dict[str, float]:
    """Everything of Table 1 for one scope, as `mi/<scope>/<name>`. Computed in float64 on the CPU.

    log_likelihood  [N, M] summed log-likelihood of reasoning i under distinct prompt m (nats)
    own             [N] the distinct prompt that reasoning i was sampled under
    tokens          [N] its number of tokens, >= 1
    weight          [M] or [N, M] columns per distinct prompt (None: one each); see the module's docstring
    ema             its state advances by one measurement of this scope

    Returns {} when there are fewer than two reasonings or two distinct prompts: nothing can be told apart.
    RunError (class nan): a log-likelihood is not finite.
    """
    scores = torch.as_tensor(log_likelihood).detach().double().cpu()
    own = torch.as_tensor(own).cpu().long()
    length = torch.as_tensor(tokens).cpu().double()
    n, m = scores.shape
    if own.shape != (n,) or length.shape != (n,) or (n and (length.min() < 1 or own.min() < 0 or own.max() >= m)):
        raise ValueError(f"own and tokens must be [{n}], with prompts below {m} and at least one token")
    if n < 2 or m < 2:
        return {}
    weights = torch.ones(m) if weight is None else torch.as_tensor(weight)
    weights = weights.cpu().double().expand(n, m)
    if not torch.isfinite(scores[weights > 0]).all():
        raise RunError("a cross-scored log-likelihood is not a finite number", failure_class="nan")

    rows = torch.arange(n)
    columns = weights.sum(dim=1)
    log_prior = (weights / columns[:, None]).log()  # -inf where a prompt is no candidate
    own_prior = log_prior[rows, own]
    if not torch.isfinite(own_prior).all():
        raise ValueError("every reasoning needs its own prompt among its candidates")
    scores = torch.where(weights > 0, scores, -torch.inf)
    matched_seq = scores[rows, own]
    marginal_seq = torch.logsumexp(scores + log_prior, dim=1)

    result = _retrieval(scores, own, weights)
    result["h_z_given_x"] = -(matched_seq / length).mean()
    result["h_z_given_x_seq"] = -matched_seq.mean()
    result["h_z_seq"] = -marginal_seq.mean()
    result["mi_seq_est"] = (matched_seq - marginal_seq).mean()
    result["upper_bound"] = -own_prior.mean()  # log C when no prompt is repeated

    def z_score(difference: torch.Tensor, sigma: float | torch.Tensor) -> torch.Tensor:
        return (difference / (sigma + config.eps)).mean()

    def per_token(marginal: torch.Tensor, suffix: str, ddof: int) -> None:
        difference = matched_seq / length - marginal
        sigma = float(marginal.std(correction=ddof))
        result[f"h_z{suffix}"] = -marginal.mean()
        result[f"mi_est{suffix}"] = difference.mean()
        result[f"mi_zscore{suffix}"] = z_score(difference, sigma)
        result[f"mi_zscore_ema{suffix}"] = z_score(difference, ema.update(f"{scope}{suffix}", sigma))

    per_token(marginal_seq / length, "", ddof=1)
    result["mi_zscore_seq"] = z_score(matched_seq - marginal_seq, marginal_seq.std(correction=1))
    if config.released_marginal:
        per_token(torch.logsumexp(scores / length[:, None] + log_prior, dim=1), "_code", ddof=0)
        result["retrieval_chance_code"] = own_prior.exp().mean()
    return {f"mi/{scope}/{name}": float(value) for name, value in result.items()}


def retrieval_credit(scores: torch.Tensor, own: torch.Tensor, k: int = 1) -> torch.Tensor:
    """How far each reasoning's own prompt is among the k likeliest: 1 yes, 0 no, between them for exact ties.

    scores  [N, M] log-likelihood of reasoning i under candidate m;  own  int64 [N] its own candidate

    With b candidates strictly better than one's own and t as good (itself included), the credit is (k - b) / t within
    [0, 1]: its expectation when ties break at random. Returns float64 [N].
    """
    mine = scores.gather(1, own[:, None])
    better = (scores > mine).sum(dim=1)
    tied = (scores == mine).sum(dim=1)
    return ((k - better).double() / tied).clamp(0, 1)


def _retrieval(scores: torch.Tensor, own: torch.Tensor, weights: torch.Tensor) -> dict[str, torch.Tensor]:
    """Accuracy, its chance and Recall@k."""
    accuracy = retrieval_credit(scores, own).mean()
    chance = (1.0 / (weights > 0).sum(dim=1).double()).mean()
    result = {"retrieval_acc": accuracy, "retrieval_chance": chance, "retrieval_above_chance": accuracy - chance}
    result.update({f"recall_at_{k}": retrieval_credit(scores, own, k).mean() for k in RECALLS})
    return result
