"""The specification of the embedded trainer. Imports no torch."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

from plat.errors import SpecError
from plat.extras import require_extra
from plat.trainer.api import TrainerSpec, lazily
from plat_rl.embedded.base_model.base_record import base_identity, shipped_base
from plat_rl.embedded.base_model.recipe import base_key
from plat_rl.environments import environment_errors, environment_of, needs_of_task
from plat_rl.metric_names import METRICS
from plat_rl.run_config import RunConfig
from plat_rl.validation import check_iteration, check_stand_in, idle_keys


def validate(config: RunConfig) -> RunConfig:
    """Return the config. Raises SpecError, with the key to change, for combinations that cannot run."""
    environment_of(config)
    check_stand_in(config)
    if config.model.path is None and config.train.rendering == "chat":
        raise SpecError(
            "a stand-in model knows only the compact rendering",
            where="train.rendering",
            fix="use train.rendering=compact, or name a real checkpoint with model.path",
        )
    check_iteration(config)
    return config


def task_identity(config: RunConfig) -> dict[str, Any]:
    """Return {"environment": version, "data": fingerprint} of a run's environment, a part of the run's identity.

    Raises SpecError if the environment's data cannot be read.
    """
    spec, options = environment_of(config)
    with environment_errors():
        return {"environment": spec.version, "data": spec.fingerprint(options)}


def _fingerprint(config: RunConfig) -> dict[str, Any]:
    """Return what identifies a run beside its config: its base model, the environment's version and data."""
    facts = {"base": base_identity(config.model), **task_identity(config)}
    # plat < 0.3 trained half precision without master weights: those runs have other ids
    return facts | ({"master_weights": "float32"} if config.dtype in ("bfloat16", "float16") else {})


def load_prepare() -> Any:
    """Return a function (config, cache) that builds a config's base model unless it is shipped or in the cache."""
    from plat_rl.embedded.base_model.load import obtain

    return lambda config, cache: obtain(config.model, cache)


def prepare(config: RunConfig) -> tuple[str, str] | None:
    """Return key and title of the base model to build before the run; None if it is shipped or a local checkpoint."""
    if config.model.path is not None or shipped_base(config.model) is not None:
        return None
    return base_key(
        config.model
    ), f"base model for {config.model.name} (stand-in, {config.model.base.version}, seed {config.model.base.seed})"


def _check_machine(config: RunConfig) -> None:
    """Raise SpecError if the extra `rl` is missing, or `hub` for a run that loads from there or a real checkpoint."""
    require_extra("rl", "the trainer embedded", "trainer")
    from plat_rl.embedded.transformer.tokenizer import is_of_words

    if config.model.path is not None and not is_of_words(Path(config.model.path)):
        require_extra("hub", "a checkpoint of Hugging Face", "model.path")
    if getattr(environment_of(config)[1], "data", "") == "hub":
        require_extra("hub", "data: hub", "task.env.data")


def _less_memory(config: RunConfig) -> RunConfig | None:
    """Halve the micro-batch; None if it has one trajectory. Gradients are summed, so mini-batches stay the same."""
    train = config.train
    size = train.micro_batch or math.ceil(train.prompts * train.group_size / train.mini_batches)
    return None if size <= 1 else replace(config, train=replace(train, micro_batch=math.ceil(size / 2)))


# Options that both trainers got after their first runs -> the value that means "as before".
LEGACY = {
    "algorithm.std_floor": 0.0,
    "eval.reasoning_swap": False,
    "eval.trajectories": 0,
    "gradient.buckets": 6,
    "gradient.every": 0,
    "gradient.group_size": 16,
    "gradient.halves": False,
    "gradient.prompts": 128,
    "gradient.times": 0,
    "mi.turns": 0,
    "task.reward_noise": 0.0,
    "train.precheck": 0,
    "train.prompt_metrics": False,
}

SPEC = TrainerSpec(
    name="embedded",
    version="3.0",
    config_type=RunConfig,
    load=lazily("plat_rl.embedded.train", "train"),
    conf="plat_rl.conf",
    legacy=LEGACY
    | {
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
    prepare=prepare,
    load_prepare=load_prepare,
    load_evaluate=lazily("plat_rl.embedded.evaluate", "evaluate_checkpoint"),
    load_check=lazily("plat_rl.loop.check_task", "check_task"),
    needs=needs_of_task,
    less_memory=_less_memory,
    check_machine=_check_machine,
    idle_keys=idle_keys,
    metrics=METRICS,
    load_plan_note=lazily("plat_rl.precheck", "plan_note"),
    shown={"retrieval": "mi/first_turn/retrieval_acc"},
    preload=("plat_rl.embedded.train",),
)
