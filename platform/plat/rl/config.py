"""Every ambiguous choice of the maths as a named, typed option (light: imports nothing heavy).

Section numbers refer to the RAGEN-2 paper (arXiv 2604.06268); "released" is its authors' code. Choices and ranges are
field metadata, so that `plat.spec` can check a value before anything runs and name the nearest valid one.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


def choice(default: str, *others: str) -> Any:
    """A dataclass field that takes one of these names."""
    return field(default=default, metadata={"choices": (default, *others)})


def number(
    default: float,
    *,
    minimum: float | None = None,
    maximum: float | None = None,
    above: float | None = None,
    below: float | None = None,
) -> Any:
    """A numeric dataclass field with inclusive limits `minimum` and `maximum`, or exclusive ones, `above`, `below`."""
    limits = {"minimum": minimum, "maximum": maximum, "above": above, "below": below}
    return field(default=default, metadata={name: limit for name, limit in limits.items() if limit is not None})


@dataclass
class FilterConfig:
    """Which prompts of a batch are kept for the update, and how the step is adapted (section 4, Algorithm 1)."""

    name: str = "none"
    rule: str = choice(
        "none", "top_p", "top_p_softmax", "top_k", "top_k_abs", "min_p", "percentile", "random", "within_group"
    )
    metric: str = choice(
        "reward_std", "reward_variance", "reward", "reward_sum", "entropy", "entropy_std", "entropy_variance", "length"
    )
    ddof: int = number(1, minimum=0, maximum=1)  # of the standard deviation or variance over the group
    value: float = number(
        1.0, minimum=0
    )  # mass (top_p), share (top_k, random, within_group, of the maximum: min_p), or count
    kept: str = choice(
        "own", "as_top_p"
    )  # how many prompts top_k and random keep: by `value` | as many as Top-p .9 would
    low: float = number(0.0, minimum=0, maximum=1)  # percentile band [low, high) of the ranking, largest score first
    high: float = number(1.0, minimum=0, maximum=1)
    keep: str = choice("largest", "smallest")
    include_zero: bool = False  # False: prompts with |score| <= 1e-10 are dropped first
    at_least_one: bool = True  # top_k only; False: the paper's floor(rho N), which may be none
    eps: float = number(0.01, minimum=0)  # slack of the linear top_p target
    updates: str = choice("same_count", "fixed_size")  # smaller mini-batches | fewer updates
    scale: str = choice("none", "loss", "advantage", "learning_rate")
    scale_power: str = choice("linear", "sqrt")  # of the kept share
    on_empty: str = choice("skip", "keep_all")  # skip: no update
    # how within_group turns its share of the group into a number of trajectories (released branch: round)
    within_group_rounding: str = choice("floor", "round")


@dataclass
class AlgorithmConfig:
    """Advantage estimator, losses and their coefficients (appendix B.2; names as in verl)."""

    name: str = "ppo"
    advantage: str = choice("gae", "grpo")
    norm_by_std: bool = True  # grpo only: divide by the group's standard deviation (False: Dr. GRPO)
    loss_agg: str = choice("token-mean", "seq-mean-token-mean", "seq-mean-token-sum", "seq-mean-token-sum-norm")
    clip_low: float = number(0.2, minimum=0, maximum=1)
    clip_high: float = number(0.28, minimum=0)
    clip_c: float = number(3.0, above=1)  # dual clip
    gamma: float = number(1.0, minimum=0, maximum=1)
    lam: float = number(1.0, minimum=0, maximum=1)
    entropy_coef: float = 0.001
    kl_coef: float = number(0.0, minimum=0)
    kl_kind: str = choice("low_var_kl", "kl", "abs", "mse")
    value_clip: float = number(0.5, above=0)
    dynamic_sampling: bool = False  # DAPO: replace prompts whose rewards are all equal
    max_refills: int = number(3, minimum=0)  # at most this many extra rollouts of a batch


PROBE_BLOCK = 8  # prompts that a reasoning of the probe is scored under, its own among them


@dataclass
class MIConfig:
    """The mutual-information proxies (section 2.3, Table 1), and the probe with fresh reasonings."""

    every: int = number(5, minimum=0)  # iterations between measurements; step 1 is always measured; 0: never
    first_turn: bool = True
    trajectory: bool = True
    samples: int = number(64, minimum=2)  # reasonings scored per scope
    ema_alpha: float = number(0.9, minimum=0, maximum=1)
    eps: float = number(1e-3, minimum=0)
    released_marginal: bool = True  # also log the released code's marginal, with suffix _code
    probe: int = number(512, minimum=0)  # fresh reasonings that a probe scores, a multiple of 8; 0: no probe
    # evaluations from one probe to the next; the base model and the last policy are always probed
    probe_every: int = number(1, minimum=1)


@dataclass
class EarlyStopConfig:
    """Early stops of appendix B.2. A window of 0 switches a stop off."""

    variance_window: int = number(5, minimum=0)  # consecutive iterations (released: 10)
    variance_fraction: float = number(0.1, minimum=0)  # of the mean of the first `variance_baseline` iterations
    variance_baseline: int = number(10, minimum=1)
    success_window: int = number(5, minimum=0)  # consecutive evaluations
    success_floor: float = number(0.01, minimum=0, maximum=1)
    empty_window: int = number(5, minimum=0)  # consecutive empty batches (released code)
