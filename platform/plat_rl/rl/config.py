"""The options of the maths, one for every ambiguous choice. Imports nothing heavy.

Section numbers refer to the RAGEN-2 paper (arXiv 2604.06268); "released" is its authors' code. Field metadata holds
choices and ranges, so that `plat.spec` checks values before anything runs and names the nearest valid one.
"""

from __future__ import annotations

from dataclasses import dataclass

from plat.trainer.config_fields import choice, number
from plat_rl.rl.filter.rule import RULES

METRICS = (  # see `plat_rl.rl.statistics`
    *("reward_std", "reward_variance", "reward", "reward_sum", "entropy", "entropy_std", "entropy_variance"),
    *("length", "success", "failure", "success_variance"),
)


@dataclass
class FilterConfig:
    """The selection of the prompts that are kept for the update, and the step's adaptation (section 4, Algorithm 1)."""

    name: str = "none"  # of the config group's option that was chosen; says nothing by itself
    # which prompts of a batch are kept, ranked by `metric`
    rule: str = choice(*RULES)
    # what the prompts of a batch are ranked by, computed over the group of each
    metric: str = choice(*METRICS)
    # of the standard deviation or variance over the group: 1 divides by G - 1
    ddof: int = number(1, minimum=0, maximum=1)
    # how much is kept: mass (top_p), share (top_k, random, both within_group; of the maximum: min_p), or count
    value: float = number(1.0, minimum=0)
    # how many prompts top_k and random keep: by `value` | as many as Top-p .9 would
    kept: str = choice("own", "as_top_p")
    low: float = number(0.0, minimum=0, maximum=1)  # percentile band [low, high) of the ranking, largest score first
    high: float = number(1.0, minimum=0, maximum=1)  # the other end of the percentile band
    keep: str = choice("largest", "smallest")  # which end of the ranking is kept
    include_zero: bool = False  # False: prompts with |score| <= 1e-10 are dropped first
    at_least_one: bool = True  # top_k only; False: the paper's floor(rho N), which may be none
    eps: float = number(0.01, minimum=0)  # slack of the linear top_p target
    # how an update is fitted to fewer prompts: smaller mini-batches | fewer updates
    updates: str = choice("same_count", "fixed_size")
    # what the kept share scales, so that fewer prompts move the policy less
    scale: str = choice("none", "loss", "advantage", "learning_rate")
    scale_power: str = choice("linear", "sqrt")  # of the kept share, where something is scaled by it
    on_empty: str = choice("skip", "keep_all")  # when no prompt is kept: skip makes no update
    # how both within_group turn their share of the group into a number of trajectories (released branch: round)
    within_group_rounding: str = choice("floor", "round")


PAPER_TOP_P = FilterConfig(rule="top_p", metric="reward_variance", value=0.9)  # as conf/filter/top_p.yaml


@dataclass
class AlgorithmConfig:
    """Advantage estimator, losses and their coefficients (appendix B.2; names as in verl)."""

    name: str = "ppo"  # of the config group's option that was chosen; says nothing by itself
    # how advantages are estimated: with a critic (gae) or relative to the group (grpo)
    advantage: str = choice("gae", "grpo")
    norm_by_std: bool = True  # grpo only: divide by the group's standard deviation (False: Dr. GRPO)
    # grpo that divides only: the smallest standard deviation that an advantage is divided by; 0: no floor [reward]
    std_floor: float = number(0.0, minimum=0)
    # how the losses of tokens become one number
    loss_agg: str = choice("token-mean", "seq-mean-token-mean", "seq-mean-token-sum", "seq-mean-token-sum-norm")
    clip_low: float = number(0.2, minimum=0, maximum=1)  # how far below 1 the ratio of policies counts
    clip_high: float = number(0.28, minimum=0)  # how far above 1 the ratio of policies counts
    clip_c: float = number(3.0, above=1)  # bound of the ratio for negative advantages (dual clip)
    gamma: float = number(1.0, minimum=0, maximum=1)  # discount of later rewards (gae)
    lam: float = number(1.0, minimum=0, maximum=1)  # weight of later errors of the critic (gae)
    entropy_coef: float = 0.001  # weight of the entropy bonus
    kl_coef: float = number(0.0, minimum=0)  # weight of the penalty for leaving the base model
    kl_kind: str = choice("low_var_kl", "kl", "abs", "mse")  # estimator of that penalty
    value_clip: float = number(0.5, above=0)  # how far the critic may move from its earlier value in one iteration
    dynamic_sampling: bool = False  # DAPO: replace prompts whose rewards are all equal
    max_refills: int = number(3, minimum=0)  # at most this many extra rollouts of a batch


PROBE_BLOCK = 8  # prompts that a reasoning of the probe is scored under, its own among them


@dataclass
class MIConfig:
    """The mutual-information proxies (section 2.3, Table 1), and the probe with fresh reasonings."""

    # from one measurement to the next; step 1 is always measured; 0: never [iterations]
    every: int = number(5, minimum=0)
    first_turn: bool = True  # measure on the reasoning of the first turn
    trajectory: bool = True  # measure on all reasoning of a trajectory
    turns: int = number(0, minimum=0)  # measure each of so many first turns by itself, too; 0: none [turns]
    samples: int = number(64, minimum=2)  # reasonings scored per scope [reasonings]
    ema_alpha: float = number(0.9, minimum=0, maximum=1)  # share of the earlier value in the moving average
    eps: float = number(1e-3, minimum=0)  # added to the standard deviation of a z-score
    released_marginal: bool = True  # also log the released code's marginal, with suffix _code
    # fresh reasonings that a probe scores, a multiple of 8; 0: no probe [reasonings]
    probe: int = number(512, minimum=0)
    # from one probe to the next; the base model and the last policy are always probed [evaluations]
    probe_every: int = number(1, minimum=1)


@dataclass
class GradientConfig:
    """The gradient probe (section 3, figure 3): how the gradient depends on the reward variance of prompts."""

    # from one measurement to the next; iteration 1 is the first; 0: never [iterations]
    every: int = number(0, minimum=0)
    prompts: int = number(128, minimum=1)  # of a batch that is played for it [prompts]
    group_size: int = number(16, minimum=2)  # trajectories of each of its prompts [trajectories]
    buckets: int = number(6, minimum=1)  # of equally many prompts, by the spread of their returns [buckets]
    # measurements besides, evenly from the first iteration to the last; 3: first, middle, last; 0: none [measurements]
    times: int = number(0, minimum=0)
    # also how far two random halves of a bucket agree, with the null of permuted returns, and one norm of regularisers
    halves: bool = False


@dataclass
class EarlyStopConfig:
    """Early stops of appendix B.2. A window of 0 switches a stop off."""

    # how long the reward variance must be low, one after the other; released: 10 [iterations]
    variance_window: int = number(5, minimum=0)
    # below this share of the mean of the first `variance_baseline` iterations it is low
    variance_fraction: float = number(0.1, minimum=0)
    variance_baseline: int = number(10, minimum=1)  # over which the usual reward variance is taken [iterations]
    success_window: int = number(5, minimum=0)  # how long success must be low, one after the other [evaluations]
    success_floor: float = number(0.01, minimum=0, maximum=1)  # below this success is low [share]
    # how many batches, one after the other, may be empty (released code) [batches]
    empty_window: int = number(5, minimum=0)
