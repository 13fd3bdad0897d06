"""The trainer `verl` as the platform sees it: validation, resources, identity. Imports neither torch nor verl."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from importlib.util import find_spec
from operator import attrgetter
from pathlib import Path
from typing import Any

from plat.errors import SpecError
from plat.extras import require_extra
from plat.processes.own_process import usable_cores
from plat.trainer.api import Need, Outcome, RunIO, State
from plat.trainer.resources import Resources
from plat_envs.data import model_need
from plat_rl.embedded.base_model.base_record import base_identity
from plat_rl.embedded.spec import LEGACY, PolicyTrainer, task_identity
from plat_rl.environments import as_need, environment_of, needs_of_task
from plat_rl.metric_names import VERL_METRICS
from plat_rl.run_config import BaseConfig, ShapeConfig
from plat_rl.validation import check_iteration, check_rendering, check_stand_in, with_pictures
from plat_rl.verl.settings.models import (
    CPUS_BESIDE,
    CPUS_OF_A_WORKER,
    checkpoint_bytes,
    host_gigabytes,
    is_stand_in,
    minutes,
    paper_model,
    workers,
)
from plat_rl.verl.settings.verl_config import VerlRunConfig
from plat_rl.verl.settings.verl_overrides import rollout_engine
from plat_rl.verl.vision.fitting import check_vision
from plat_rl.verl.vision.pictures import has_pictures

BYTES_OF_A_WEIGHT = 2  # bfloat16, on the hub
UNABLE_STEPS = 20  # of the base of conf/scale/smoke.yaml
# The base of conf/model/qwen2.5-0.5b.yaml.
SMALLEST, ABLE = ShapeConfig(layers=1, width=32, heads=2, kv_heads=2, ffn=64), BaseConfig(steps=1500)

# The base of conf/model/qwen2.5-vl-3b.yaml.
SEEING = ShapeConfig(layers=2, width=64, heads=4, kv_heads=4, ffn=128, rope_theta=10.0)
ABLE_TO_SEE = BaseConfig(version="vl1", steps=3000, batch=128, lr=3e-3, wrong=0.0)

# Keys that only the embedded trainer honours; their value in LEGACY switches them off.
EMBEDDED_ONLY = ("task.reward_noise", "train.precheck", "eval.trajectories", "eval.reasoning_swap", "gradient.halves")


def _with_a_base_that_can_act(config: VerlRunConfig) -> VerlRunConfig:
    """Replace the base model of `scale=smoke` by the smallest one that the package ships.

    A base of 20 steps never answers in a valid format: all returns are equal, a filter keeps nothing, and a smoke test
    would make no update.
    """
    if not is_stand_in(config) or config.scale != "smoke" or config.model.base.steps != UNABLE_STEPS:
        return config
    shape, base = (SEEING, ABLE_TO_SEE) if config.model.vision_width else (SMALLEST, ABLE)
    return replace(config, model=replace(config.model, shape=shape, base=base))


def _check_keys(config: VerlRunConfig) -> None:
    """Raise SpecError if a key that only the embedded trainer honours is set."""
    for key in EMBEDDED_ONLY:
        if attrgetter(key)(config) != LEGACY[key]:
            fix = f"{key}={json.dumps(LEGACY[key])}, or trainer=embedded"
            raise SpecError(f"the trainer verl cannot honour {key}", where=key, fix=fix)


def _check_that_it_sees(config: VerlRunConfig) -> None:
    """Raise SpecError if a rendering with pictures goes to a paper's model that sees none, or the model is unknown."""
    rendering = config.train.rendering
    if "-VL-" not in paper_model(config).hub and has_pictures(rendering):
        raise SpecError(
            f"{config.model.paper_name} sees no pictures, and the rendering {rendering} has some",
            where="train.rendering",
            fix="model=qwen2.5-vl-3b, or train.rendering=chat train.pictures=false",
        )


def _check_engines(config: VerlRunConfig) -> None:
    engine = rollout_engine(config)
    if config.device == "cpu" and (engine != "hf" or config.dtype != "float32"):
        wrong = [f"dtype={config.dtype}"] * (config.dtype != "float32") + [f"verl.rollout={engine}"] * (engine != "hf")
        raise SpecError(
            f"on the CPU verl supports only dtype=float32 and verl.rollout=hf, not {' and '.join(wrong)}",
            where="verl.rollout" if engine != "hf" else "dtype",
            fix="device=cpu dtype=float32 verl.rollout=auto, or device=cuda; a small model on the CPU is scale=smoke",
        )
    if config.dtype not in ("float32", "bfloat16"):
        raise SpecError(f"the trainer verl does not support {config.dtype}", where="dtype", fix="bfloat16 or float32")
    if engine == "hf" and config.verl.tensor_parallel > 1:
        raise SpecError(
            "the rollout engine hf has a whole model in each process",
            where="verl.tensor_parallel",
            fix="verl.tensor_parallel=1, or verl.rollout=vllm",
        )


class VerlTrainer(PolicyTrainer):
    """Trains with verl's workers, on one machine or several."""

    name = "verl"
    version = "1.0"
    config_type = VerlRunConfig
    operational_keys = ("train.pictures", "verl.tokens_per_gpu", "verl.gpu_memory", "verl.offload", "model.paper_name")
    metrics = VERL_METRICS
    stall_after = 3600.0  # saving a large model, or starting it on many GPUs, takes long
    disk_bytes = staticmethod(checkpoint_bytes)
    cost_keys = ("model.name", "verl.workers", "task.name", "algorithm.name", "filter.name")

    def train(self, config: VerlRunConfig, io: RunIO) -> Outcome:
        from plat_rl.verl.train import train

        return train(config, io)

    def validate(self, config: VerlRunConfig) -> VerlRunConfig:
        """Check that the config can run, and return it. Raises SpecError that names the key to change.

        A stand-in with `scale=smoke` and a base model too little trained to answer in a valid format gets another
        `model.shape` and `model.base`: those of the smallest base model that travels with plat.
        """
        require_extra("verl", "the trainer verl", "trainer")
        config = with_pictures(config)
        environment_of(config)
        if is_stand_in(config):
            check_stand_in(config)
            check_rendering(config)
        elif config.model.path is None:
            _check_that_it_sees(config)
        check_iteration(config)
        _check_keys(config)
        _check_engines(config)
        workers(config)
        return _with_a_base_that_can_act(config)

    def resources(self, config: VerlRunConfig) -> Resources:
        count = workers(config)
        if config.device == "cpu":
            return Resources(threads=config.threads * count, nodes=config.verl.nodes)
        return Resources(
            threads=CPUS_OF_A_WORKER * count + CPUS_BESIDE,
            gpus=count,
            memory_mb=host_gigabytes(config) * 1024,
            minutes=minutes(config),
            nodes=config.verl.nodes,
        )

    def fingerprint(self, config: VerlRunConfig) -> dict[str, Any]:
        """Return what else determines a run's results: its base model, and the environment's version and data."""
        local = is_stand_in(config) or config.model.path is not None
        base = base_identity(config.model) if local else {"hub": paper_model(config).hub}
        return {"base": base, **task_identity(config)}

    def preparation(self, config: VerlRunConfig) -> tuple[str, str] | None:
        return super().preparation(config) if is_stand_in(config) else None

    def evaluate(self, config: VerlRunConfig, state: State, cache: Path, options: Mapping[str, Any]) -> dict[str, Any]:
        from plat_rl.verl.train import evaluate_checkpoint

        return evaluate_checkpoint(config, state, cache, options)

    def check(self, config: VerlRunConfig) -> None:
        from plat_rl.verl.settings.composition import check_config

        check_vision(config)
        check_config(config)

    def check_machine(self, config: VerlRunConfig) -> None:
        """Raise SpecError if the rollout engine is not installed, or if there are more training processes than cores.

        On the CPU, training processes that share a core would wait for each other.
        """
        engine = rollout_engine(config)
        if engine != "hf" and find_spec(engine) is None:
            raise SpecError(
                f"the rollout engine {engine} is not installed",
                where="verl.rollout",
                fix=f"pip install {engine}, or verl.rollout=hf, which is slower and needs nothing more",
            )
        count, cores = workers(config), usable_cores()
        if config.device == "cpu" and count > cores:
            raise SpecError(
                f"{count} training processes on the CPU need a core each, and this machine has {cores}",
                where="verl.workers",
                fix=f"verl.workers={cores}, or a larger machine (--on slurm, --on ray)",
            )

    def needs(self, config: VerlRunConfig) -> list[Need]:
        """Return the paper's checkpoint, if the run starts from it, and what the task needs."""
        if is_stand_in(config) or config.model.path is not None:
            return needs_of_task(config)
        model = paper_model(config)
        return [as_need(model_need(model.hub, BYTES_OF_A_WEIGHT * model.size.billions)), *needs_of_task(config)]

    def less_memory(self, config: VerlRunConfig) -> VerlRunConfig | None:
        """Return the config with half the tokens in a micro-batch, whose sum is unchanged; None below 1024 tokens."""
        tokens = config.verl.tokens_per_gpu // 2
        return None if tokens < 1024 else replace(config, verl=replace(config.verl, tokens_per_gpu=tokens))
