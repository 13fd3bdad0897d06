"""Every ambiguous choice of the maths as a named, typed option (light: imports nothing heavy).

Section numbers refer to the RAGEN-2 paper (arXiv 2604.06268); "released" is its authors' code.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass
class FilterConfig:
    """Which prompts of a batch are kept for the update, and how the step is adapted (section 4, Algorithm 1)."""

    name: str = "none"
    rule: str = "none"  # none | top_p | top_p_softmax | top_k | top_k_abs | min_p | percentile | within_group
    metric: str = "reward_std"  # reward_std | reward_variance | reward | reward_sum | entropy | entropy_variance | length
    ddof: int = 1  # of the standard deviation or variance over the group: 0 or 1
    value: float = 1.0  # mass (top_p), share (top_k, within_group), count (top_k_abs), share of the maximum (min_p)
    low: float = 0.0  # percentile band [low, high) of the ranking, largest score first
    high: float = 1.0
    keep: str = "largest"  # largest | smallest
    include_zero: bool = False  # False: prompts with |score| <= 1e-10 are dropped first
    eps: float = 0.01  # slack of the linear top_p target
    updates: str = "same_count"  # same_count: smaller mini-batches | fixed_size: fewer updates
    scale: str = "none"  # none | loss | advantage | learning_rate
    scale_power: str = "linear"  # linear: kept share | sqrt: its square root
    on_empty: str = "skip"  # skip the update | keep_all


@dataclass
class AlgorithmConfig:
    """Advantage estimator, losses and their coefficients (appendix B.2; names as in verl)."""

    name: str = "ppo"
    advantage: str = "gae"  # gae | grpo
    norm_by_std: bool = True  # grpo only: divide by the group's standard deviation (False: Dr. GRPO)
    loss_agg: str = "token-mean"  # token-mean | seq-mean-token-mean | seq-mean-token-sum | seq-mean-token-sum-norm
    clip_low: float = 0.2
    clip_high: float = 0.28
    clip_c: float = 3.0  # dual clip
    gamma: float = 1.0
    lam: float = 1.0
    entropy_coef: float = 0.001
    kl_coef: float = 0.0
    kl_kind: str = "low_var_kl"  # kl | abs | mse | low_var_kl
    value_clip: float = 0.5
    dynamic_sampling: bool = False  # DAPO: replace prompts whose rewards are all equal
    max_refills: int = 3  # at most this many extra rollouts of a batch


@dataclass
class MIConfig:
    """The mutual-information proxies (section 2.3, Table 1)."""

    every: int = 5  # iterations between measurements; step 1 is always measured; 0: never
    first_turn: bool = True
    trajectory: bool = True
    samples: int = 64  # reasonings scored per scope
    ema_alpha: float = 0.9
    eps: float = 1e-3
    released_marginal: bool = True  # also log the released code's marginal, with suffix _code


@dataclass
class EarlyStopConfig:
    """Early stops of appendix B.2. A window of 0 switches a stop off."""

    variance_window: int = 5  # consecutive iterations (released: 10)
    variance_fraction: float = 0.1  # of the mean of the first `variance_baseline` iterations
    variance_baseline: int = 10
    success_window: int = 5  # consecutive evaluations
    success_floor: float = 0.01
    empty_window: int = 5  # consecutive empty batches (released code)
