"""What the platform sees of the embedded trainer (light: imports no torch)."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

from plat.errors import SpecError
from plat.trainer.api import TrainerSpec
from plat.trainer.config import RunConfig
from plat.trainer.embedded.base_model.recipe import base_key
from plat.trainer.embedded.base_model.record import base_identity, shipped_base
from plat.trainer.environments import environment_of
from plat.trainer.metric_names import METRICS
from plat.trainer.validation import check_iteration, check_stand_in, idle_keys


def validate(config: RunConfig) -> RunConfig:
    """Combinations that cannot run; SpecError says which key to change."""
    environment_of(config)
    check_stand_in(config)
    if config.model.path is None and config.train.rendering == "chat":
        raise SpecError(
            "a stand-in model knows only the compact rendering",
            where="train.rendering",
            mend="use train.rendering=compact, or name a real checkpoint with model.path",
        )
    check_iteration(config)
    return config


def _fingerprint(config: RunConfig) -> dict[str, Any]:
    """What else a run is a function of: its base model, and the environment's version and data."""
    spec, options = environment_of(config)
    facts = {"base": base_identity(config.model), "environment": spec.version, "data": spec.fingerprint(options)}
    # Until plat 0.3 half precision was trained without them: such runs are others.
    return facts | ({"master_weights": "float32"} if config.dtype in ("bfloat16", "float16") else {})


def _load() -> Any:
    from plat.trainer.embedded.train import train

    return train


def load_prepare() -> Any:
    """What builds the base model of a config, unless it is in the cache."""
    from plat.trainer.embedded.base_model.load import obtain

    def prepare(config: RunConfig, cache: Path) -> None:
        obtain(config.model, cache)

    return prepare


def _load_check() -> Any:
    from plat.trainer.loop.check_task import check_task

    return check_task


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
        "task.reward_noise": 0.0,
        "algorithm.std_floor": 0.0,
        "train.precheck": 0,
        "train.prompt_metrics": False,
        "eval.trajectories": 0,
        "eval.reasoning_swap": False,
        "filter.within_group_rounding": "floor",
        "filter.kept": "own",
        "gradient.every": 0,
        "gradient.prompts": 128,
        "gradient.group_size": 16,
        "gradient.buckets": 6,
        "mi.turns": 0,
        "gradient.times": 0,
        "gradient.halves": False,
    },
    operational_keys=("train.micro_batch", "model.paper_name"),
    validate=validate,
    resources=lambda config: {"threads": config.threads, "gpus": int(config.device == "cuda")},
    fingerprint=_fingerprint,
    prepare=_prepare,
    load_prepare=load_prepare,
    load_evaluate=_load_evaluate,
    load_check=_load_check,
    less_memory=_less_memory,
    idle_keys=idle_keys,
    metrics=METRICS,
    preload=("plat.trainer.embedded.train", "verl.trainer.ppo.core_algos"),
)
