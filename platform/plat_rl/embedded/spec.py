"""The specification of the embedded trainer. Imports no torch."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from plat.extras import require_extra
from plat.trainer.api import Outcome, PlanNote, RunIO, State, Trainer
from plat_rl.embedded.base_model.base_record import base_identity, base_key, shipped_base
from plat_rl.environments import environment_errors, environment_of, needs_of_task
from plat_rl.metric_names import METRICS
from plat_rl.run_config import RunConfig
from plat_rl.validation import check_iteration, check_rendering, check_stand_in, idle_keys, with_pictures


def task_identity(config: RunConfig) -> dict[str, Any]:
    """Return {"environment": version, "data": fingerprint} of a run's environment, a part of the run's identity.

    Raises SpecError if the environment's data cannot be read.
    """
    spec, options = environment_of(config)
    with environment_errors():
        return {"environment": spec.version, "data": spec.fingerprint(options)}


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
    "model.vision_width": 0,
    "task.reward_noise": 0.0,
    "train.precheck": 0,
    "train.prompt_metrics": False,
}


class PolicyTrainer(Trainer):
    """What the trainers of this package share."""

    conf = "plat_rl.conf"
    legacy: Mapping[str, Any] = LEGACY
    shown: Mapping[str, str] = {
        "retrieval": "mi/first_turn/retrieval_acc",
        "chance": "mi/first_turn/retrieval_chance",
        "valid": "mi/first_turn/valid_share",
    }
    idle_keys = staticmethod(idle_keys)

    def preparation(self, config: Any) -> tuple[str, str] | None:
        """Return key and title of the base model to build before the run; None if it is shipped or a checkpoint."""
        model = config.model
        if model.path is not None or shipped_base(model) is not None:
            return None
        return base_key(model), f"base model for {model.name} (stand-in, {model.base.version}, seed {model.base.seed})"

    def prepare(self, config: Any, cache: Path) -> None:
        """Build a config's base model unless it is shipped or in the cache."""
        from plat_rl.embedded.base_model.load import obtain

        obtain(config.model, cache)

    def plan_note(self, home: Any, runs: Sequence[Any]) -> PlanNote | None:
        from plat_rl.precheck import plan_note

        return plan_note(home, runs)


class EmbeddedTrainer(PolicyTrainer):
    """Trains stand-in models and real checkpoints in the process of the run."""

    name = "embedded"
    version = "3.0"
    config_type = RunConfig
    legacy: Mapping[str, Any] = LEGACY | {
        "mi.probe": 0,
        "mi.probe_every": 1,
        "task.token_cost": 0.0,
        "filter.within_group_rounding": "floor",
        "filter.kept": "own",
    }
    # train.pictures is a part of train.rendering (`with_pictures`)
    operational_keys = ("train.micro_batch", "model.paper_name", "train.pictures")
    metrics = METRICS
    preload = ("plat_rl.embedded.train",)
    needs = staticmethod(needs_of_task)

    def train(self, config: RunConfig, io: RunIO) -> Outcome:
        from plat_rl.embedded.train import train

        return train(config, io)

    def validate(self, config: RunConfig) -> RunConfig:
        """Return the config. Raises SpecError, with the key to change, for combinations that cannot run."""
        config = with_pictures(config)
        environment_of(config)
        check_stand_in(config)
        check_rendering(config)
        check_iteration(config)
        return config

    def resources(self, config: RunConfig) -> dict[str, int]:
        return {"threads": config.threads, "gpus": int(config.device == "cuda")}

    def fingerprint(self, config: RunConfig) -> dict[str, Any]:
        """Return what identifies a run beside its config: its base model, the environment's version and data."""
        facts = {"base": base_identity(config.model), **task_identity(config)}
        # plat < 0.3 trained half precision without master weights: those runs have other ids
        return facts | ({"master_weights": "float32"} if config.dtype in ("bfloat16", "float16") else {})

    def evaluate(self, config: RunConfig, state: State, cache: Path, options: Mapping[str, Any]) -> dict[str, Any]:
        from plat_rl.embedded.evaluate import evaluate_checkpoint

        return evaluate_checkpoint(config, state, cache, options)

    def check(self, config: RunConfig) -> None:
        from plat_rl.loop.check_task import check_task

        check_task(config)

    def check_machine(self, config: RunConfig) -> None:
        """Raise SpecError if the extra `rl` is missing, or `hub` for a run that needs it."""
        require_extra("rl", "the trainer embedded", "trainer")
        from plat_rl.embedded.transformer.tokenizer import is_of_words

        if config.model.path is not None and not is_of_words(Path(config.model.path)):
            require_extra("hub", "a checkpoint of Hugging Face", "model.path")
        if getattr(environment_of(config)[1], "data", "") == "hub":
            require_extra("hub", "data: hub", "task.env.data")

    def less_memory(self, config: RunConfig) -> RunConfig | None:
        """Halve the micro-batch; None if it has one trajectory. Gradients are summed, so mini-batches stay the same."""
        train = config.train
        size = train.micro_batch or math.ceil(train.prompts * train.group_size / train.mini_batches)
        return None if size <= 1 else replace(config, train=replace(train, micro_batch=math.ceil(size / 2)))
