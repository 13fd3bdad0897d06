"""What the platform sees of the embedded trainer (light: imports no torch)."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

from plat.errors import SpecError
from plat.rl.config import PROBE_BLOCK, FilterConfig
from plat.trainer.api import TrainerSpec
from plat.trainer.config import RunConfig
from plat.trainer.embedded.base_model.recipe import base_key, tasks_of
from plat.trainer.embedded.base_model.record import base_identity, shipped_base
from plat.trainer.environments import environment_of


def validate(config: RunConfig) -> RunConfig:
    """Combinations that cannot run; SpecError says which key to change."""
    shape, train = config.model.shape, config.train
    environment_of(config)
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
    if config.model.path is None and train.rendering == "chat":
        raise SpecError(
            "a stand-in model knows only the compact rendering",
            where="train.rendering",
            mend="use train.rendering=compact, or name a real checkpoint with model.path",
        )
    if train.mini_batches > train.prompts * train.group_size:
        raise SpecError(
            f"{train.mini_batches} mini-batches of {train.prompts * train.group_size} trajectories",
            where="train.mini_batches",
            mend="use at most prompts x group_size",
        )
    spread = config.filter.metric in ("reward_std", "reward_variance", "entropy_std", "entropy_variance")
    spread = spread or config.filter.kept == "as_top_p"
    if config.filter.rule != "none" and spread and train.group_size <= config.filter.ddof:
        raise SpecError(
            f"a spread over {train.group_size} rollout(s) is undefined with ddof {config.filter.ddof}",
            where="train.group_size",
            mend="use a larger group, or filter=none",
        )
    chosen = config.filter
    if chosen.rule == "percentile" and chosen.low >= chosen.high:
        raise SpecError(
            f"the band from {chosen.low:g} to {chosen.high:g} is empty", where="filter.low", mend="low below high"
        )
    if (
        chosen.rule in ("top_p", "top_p_softmax", "top_k", "random", "min_p", "within_group")
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
    if config.algorithm.advantage == "grpo" and train.group_size < 2:
        raise SpecError("a group advantage needs at least 2 rollouts", where="train.group_size", mend="use 2 or more")
    return config


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


def _fingerprint(config: RunConfig) -> dict[str, Any]:
    """What else a run is a function of: its base model, and the environment's version and data."""
    spec, options = environment_of(config)
    return {"base": base_identity(config.model), "environment": spec.version, "data": spec.fingerprint(options)}


def _load() -> Any:
    from plat.trainer.embedded.train import train

    return train


def _load_prepare() -> Any:
    from plat.trainer.embedded.base_model.load import obtain

    def prepare(config: RunConfig, cache: Path) -> None:
        obtain(config.model, cache)

    return prepare


def _load_evaluate() -> Any:
    from plat.trainer.embedded.evaluate import evaluate_checkpoint

    return evaluate_checkpoint


def _prepare(config: RunConfig) -> tuple[str, str] | None:
    """The base model that must be built before the run; None when the model is shipped or a local checkpoint."""
    if config.model.path is not None or shipped_base(config.model) is not None:
        return None
    return base_key(config.model), f"base model for {config.model.name} (stand-in)"


def _less_memory(config: RunConfig) -> RunConfig | None:
    """Half the trajectories in a micro-batch, whose gradients are summed: the mini-batches stay as they are."""
    train = config.train
    size = train.micro_batch or math.ceil(train.prompts * train.group_size / train.mini_batches)
    return None if size <= 1 else replace(config, train=replace(train, micro_batch=math.ceil(size / 2)))


SPEC = TrainerSpec(
    name="embedded",
    version="3.0",
    config_type=RunConfig,
    load=_load,
    conf="plat.conf",
    legacy={
        "mi.probe": 0,
        "mi.probe_every": 1,
        "task.token_cost": 0.0,
        "filter.within_group_rounding": "floor",
        "filter.kept": "own",
    },
    operational_keys=("train.micro_batch", "model.paper_name"),
    validate=validate,
    resources=lambda config: {"threads": config.threads, "gpus": int(config.device == "cuda")},
    fingerprint=_fingerprint,
    prepare=_prepare,
    load_prepare=_load_prepare,
    load_evaluate=_load_evaluate,
    less_memory=_less_memory,
    preload=("plat.trainer.embedded.train", "verl.trainer.ppo.core_algos"),
)
