"""Combinations of settings that no built-in trainer can run (light: imports nothing heavy)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from plat.errors import SpecError
from plat.rl.config import KEEP_EVERY_PROMPT, PROBE_BLOCK, WITHIN_GROUP, FilterConfig, GradientConfig
from plat.trainer.config import RunConfig
from plat.trainer.embedded.base_model.recipe import tasks_of
from plat.units import counted

OF_THE_CRITIC = ("train.critic_lr", "train.critic_warmup", "algorithm.value_clip", "algorithm.lam", "algorithm.gamma")

# Keys of the filter that only these rules read; the ranking of prompts is read by all that drop any.
READ_BY = {
    "low": {"percentile"},
    "high": {"percentile"},
    "at_least_one": {"top_k"},
    "eps": {"top_p"},
    "within_group_rounding": set(WITHIN_GROUP),
}
OF_RANKING = {"metric", "ddof", "keep", "include_zero", "on_empty"}


def idle_keys(config: Mapping[str, Any]) -> dict[str, str]:
    """The keys of the algorithm and the filter that have no effect in a plain config of a built-in trainer, with the
    reason."""
    algorithm = config["algorithm"]
    idle: dict[str, str] = {}
    if algorithm["advantage"] != "gae":
        idle |= dict.fromkeys(OF_THE_CRITIC, f"the algorithm {algorithm['name']} has no critic")
    if algorithm["advantage"] != "grpo":
        idle["algorithm.norm_by_std"] = (
            f"the algorithm {algorithm['name']} does not compare the trajectories of a group"
        )
    if algorithm["advantage"] != "grpo" or not algorithm["norm_by_std"]:
        idle["algorithm.std_floor"] = f"the algorithm {algorithm['name']} does not divide by a standard deviation"
    if not algorithm["dynamic_sampling"]:
        idle["algorithm.max_refills"] = "without algorithm.dynamic_sampling=true there are no refills"
    if not config["gradient"]["every"] and not config["gradient"]["times"]:
        idle["gradient.halves"] = "the gradient is not probed: gradient.every and gradient.times are 0"
    if not config["mi"]["every"]:
        idle["mi.turns"] = "the proxies of mutual information are not measured: mi.every is 0"
    return idle | _idle_filter_keys(config["filter"])


def _idle_filter_keys(chosen: Mapping[str, Any]) -> dict[str, str]:
    """The keys of the filter that its rule does not read (`plat.rl.filter.select`), with the reason."""
    rule = chosen["rule"]
    idle = {key for key, rules in READ_BY.items() if rule not in rules}
    if rule in KEEP_EVERY_PROMPT:
        idle |= OF_RANKING
    if rule in ("none", "percentile") or chosen["kept"] == "as_top_p":
        idle.add("value")
    why = "there is no filter" if rule == "none" else f"the filter {chosen['name']} does not use it"
    unscaled = {"filter.scale_power": "filter.scale is none"} if chosen["scale"] == "none" else {}
    return {f"filter.{key}": why for key in idle} | unscaled


def check_stand_in(config: RunConfig) -> None:
    """SpecError where the shape of a stand-in makes no transformer, or its base no known tasks."""
    shape = config.model.shape
    if config.model.path is None:
        tasks_of(config.model.base.version)
    if shape.width % shape.heads or (shape.width // shape.heads) % 2:
        raise SpecError(
            f"width {shape.width} cannot be split into {shape.heads} heads of even size",
            where="model.shape",
            mend="make width a multiple of 2 x heads",
        )
    if shape.heads % shape.kv_heads:
        raise SpecError(
            f"{shape.heads} heads cannot share {shape.kv_heads} key-value heads",
            where="model.shape.kv_heads",
            mend="use a divisor of heads",
        )


def check_iteration(config: RunConfig) -> None:
    """SpecError where an iteration of these settings is undefined: mini-batches, groups, filter, probe."""
    train = config.train
    if train.mini_batches > train.prompts * train.group_size:
        raise SpecError(
            f"{train.mini_batches} mini-batches of {train.prompts * train.group_size} trajectories",
            where="train.mini_batches",
            mend="use at most prompts x group_size",
        )
    spread = config.filter.metric.endswith(("_std", "_variance"))
    spread = spread or config.filter.kept == "as_top_p"
    if config.filter.rule != "none" and spread and train.group_size <= config.filter.ddof:
        raise SpecError(
            f"a spread over {counted(train.group_size, 'rollout')} is undefined with ddof {config.filter.ddof}",
            where="train.group_size",
            mend="use a larger group, or filter=none",
        )
    chosen = config.filter
    if chosen.rule == "percentile" and chosen.low >= chosen.high:
        raise SpecError(
            f"the band from {chosen.low:g} to {chosen.high:g} is empty", where="filter.low", mend="low below high"
        )
    if (
        chosen.rule in ("top_p", "top_p_softmax", "top_k", "random", "min_p", *WITHIN_GROUP)
        and not 0 <= chosen.value <= 1
    ):
        raise SpecError(f"{chosen.rule} takes a share, not {chosen.value:g}", where="filter.value", mend="from 0 to 1")
    _check_kept(chosen)
    if config.mi.probe % PROBE_BLOCK:
        raise SpecError(
            f"a probe of {config.mi.probe} reasonings cannot be split into blocks of {PROBE_BLOCK}",
            where="mi.probe",
            mend=f"use a multiple of {PROBE_BLOCK}; 0 switches the probe off",
        )
    _check_gradient(config.gradient)
    if config.algorithm.advantage == "grpo" and train.group_size < 2:
        raise SpecError("a group advantage needs at least 2 rollouts", where="train.group_size", mend="use 2 or more")


def _check_gradient(config: GradientConfig) -> None:
    """SpecError where the gradient probe cannot make its buckets or halves."""
    if not config.every and not config.times:
        return
    if config.prompts < config.buckets:
        raise SpecError(
            f"{config.prompts} prompts cannot be split into {config.buckets} buckets",
            where="gradient.prompts",
            mend="use at least as many prompts as buckets; gradient.every=0 and gradient.times=0 switch the probe off",
        )
    if config.halves and config.group_size < 4:
        raise SpecError(
            f"halves of {config.group_size} trajectories have no group advantages",
            where="gradient.group_size",
            mend="use 4 or more, or gradient.halves=false",
        )


def _check_kept(chosen: FilterConfig) -> None:
    """SpecError where a filter cannot keep exactly as many prompts as Top-p would."""
    if chosen.kept == "own":
        return
    if chosen.rule not in ("top_k", "random"):
        raise SpecError(
            f"the rule {chosen.rule} has a number of prompts of its own",
            where="filter.kept",
            mend="use filter.kept=own, or one of the rules top_k and random",
        )
    if not chosen.include_zero and chosen.metric not in ("reward_std", "reward_variance"):
        raise SpecError(
            f"there may be fewer prompts with a {chosen.metric} above zero than Top-p keeps",
            where="filter.include_zero",
            mend="use filter.include_zero=true with filter.kept=as_top_p",
        )
