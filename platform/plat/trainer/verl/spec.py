"""What the platform sees of the trainer with verl (light: imports neither torch nor verl)."""

from __future__ import annotations

import json
from dataclasses import replace
from operator import attrgetter
from typing import Any

from plat.cores import usable_cores
from plat.errors import SpecError
from plat.trainer.api import TrainerSpec
from plat.trainer.config import BaseConfig, RunConfig, ShapeConfig
from plat.trainer.embedded.base_model.recipe import base_key
from plat.trainer.embedded.base_model.record import base_identity, shipped_base
from plat.trainer.embedded.spec import load_prepare
from plat.trainer.environments import environment_of
from plat.trainer.metric_names import VERL_METRICS
from plat.trainer.resources import Resources
from plat.trainer.validation import check_iteration, check_stand_in, idle_keys
from plat.trainer.verl.config import VerlRunConfig
from plat.trainer.verl.extra import require
from plat.trainer.verl.models import checkpoint_bytes, host_gigabytes, is_stand_in, minutes, paper_model, workers
from plat.trainer.verl.overrides import rollout_engine
from plat.trainer.verl.room import CPUS_BESIDE, CPUS_OF_A_WORKER

# The base of conf/scale/smoke.yaml, and that of conf/model/qwen2.5-0.5b.yaml.
UNABLE = BaseConfig(steps=20, batch=16, pool=100)
SMALLEST, ABLE = ShapeConfig(layers=1, width=32, heads=2, kv_heads=2, ffn=64), BaseConfig(steps=1500)

# Keys that only the embedded trainer honours, at the value that asks for nothing.
OF_THE_EMBEDDED_TRAINER = {
    "task.reward_noise": 0.0,
    "train.precheck": 0,
    "eval.trajectories": 0,
    "eval.reasoning_swap": False,
    "gradient.halves": False,
}


def validate(config: RunConfig) -> RunConfig:
    """Combinations that cannot run; SpecError says which key to change."""
    assert isinstance(config, VerlRunConfig)
    require()
    environment_of(config)
    if is_stand_in(config):
        check_stand_in(config)
    elif config.model.path is None:
        paper_model(config)
    check_iteration(config)
    _check_keys(config)
    _check_engines(config)
    workers(config)
    return _with_a_base_that_can_act(config)


def _with_a_base_that_can_act(config: VerlRunConfig) -> VerlRunConfig:
    """In place of a base of `scale=smoke`, the smallest one that travels with the package.

    A base of 20 steps never answers in a valid format: all returns are equal, a filter keeps nothing, and a smoke test
    would make no update.
    """
    if not is_stand_in(config) or config.scale != "smoke" or config.model.base.steps != UNABLE.steps:
        return config
    return replace(config, model=replace(config.model, shape=SMALLEST, base=ABLE))


def _check_keys(config: VerlRunConfig) -> None:
    """SpecError for a key that only the embedded trainer honours."""
    for key, off in OF_THE_EMBEDDED_TRAINER.items():
        if attrgetter(key)(config) != off:
            value = json.dumps(off)
            raise SpecError(
                f"the trainer verl cannot honour {key}", where=key, mend=f"{key}={value}, or trainer=embedded"
            )


def _check_engines(config: VerlRunConfig) -> None:
    engine = rollout_engine(config)
    if config.device == "cpu" and (engine != "hf" or config.dtype != "float32"):
        wrong = [f"dtype={config.dtype}"] * (config.dtype != "float32") + [f"verl.rollout={engine}"] * (engine != "hf")
        raise SpecError(
            f"on the CPU verl computes in float32 and generates with hf: not {' and '.join(wrong)}",
            where="verl.rollout" if engine != "hf" else "dtype",
            mend="device=cpu dtype=float32 verl.rollout=auto, or device=cuda; a small model on the CPU is scale=smoke",
        )
    if config.dtype not in ("float32", "bfloat16"):
        raise SpecError(f"verl is not run in {config.dtype} here", where="dtype", mend="bfloat16 or float32")
    if engine == "hf" and config.verl.tensor_parallel > 1:
        raise SpecError(
            "the rollout engine hf has a whole model in each process",
            where="verl.tensor_parallel",
            mend="verl.tensor_parallel=1, or verl.rollout=vllm",
        )


def _resources(config: RunConfig) -> Resources:
    assert isinstance(config, VerlRunConfig)
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


def _check_machine(config: RunConfig) -> None:
    """More training processes than cores wait for each other at every step; with GPUs the dispatcher counts those."""
    assert isinstance(config, VerlRunConfig)
    count, cores = workers(config), usable_cores()
    if config.device == "cpu" and count > cores:
        raise SpecError(
            f"{count} training processes on the CPU need a core each, and this machine has {cores}",
            where="verl.workers",
            mend=f"verl.workers={cores}, or a larger machine (--on slurm, --on ray)",
        )


def _fingerprint(config: RunConfig) -> dict[str, Any]:
    """What else a run is a function of: its base model, and the environment's version and data."""
    assert isinstance(config, VerlRunConfig)
    spec, options = environment_of(config)
    local = is_stand_in(config) or config.model.path is not None
    base = base_identity(config.model) if local else {"hub": paper_model(config).hub}
    return {"base": base, "environment": spec.version, "data": spec.fingerprint(options)}


def _prepare(config: RunConfig) -> tuple[str, str] | None:
    """The base of a stand-in that must be built before the run; None where there is none to build."""
    assert isinstance(config, VerlRunConfig)
    if not is_stand_in(config) or shipped_base(config.model) is not None:
        return None
    return base_key(config.model), f"base model for {config.model.name} (stand-in)"


def _less_memory(config: RunConfig) -> RunConfig | None:
    """Half the tokens in a micro-batch; what it adds up to stays as it is."""
    assert isinstance(config, VerlRunConfig)
    tokens = config.verl.tokens_per_gpu // 2
    return None if tokens < 1024 else replace(config, verl=replace(config.verl, tokens_per_gpu=tokens))


def _load() -> Any:
    from plat.trainer.verl.train import train

    return train


def _load_evaluate() -> Any:
    from plat.trainer.verl.evaluate import evaluate_checkpoint

    return evaluate_checkpoint


def _load_check() -> Any:
    from plat.trainer.verl.checking import check_config

    return check_config


SPEC = TrainerSpec(
    name="verl",
    version="1.0",
    config_type=VerlRunConfig,
    load=_load,
    conf="plat.conf",
    legacy={
        **OF_THE_EMBEDDED_TRAINER,
        "algorithm.std_floor": 0.0,
        "train.prompt_metrics": False,
        "gradient.every": 0,
        "gradient.prompts": 128,
        "gradient.group_size": 16,
        "gradient.buckets": 6,
        "mi.turns": 0,
        "gradient.times": 0,
    },
    operational_keys=("verl.tokens_per_gpu", "verl.gpu_memory", "verl.offload", "model.paper_name"),
    validate=validate,
    resources=_resources,
    fingerprint=_fingerprint,
    prepare=_prepare,
    load_prepare=load_prepare,
    load_evaluate=_load_evaluate,
    stall_after=3600.0,  # a checkpoint of a large model, or its start on many GPUs
    less_memory=_less_memory,
    idle_keys=idle_keys,
    metrics=VERL_METRICS,
    load_check=_load_check,
    check_machine=_check_machine,
    disk_bytes=checkpoint_bytes,
    cost_keys=("model.name", "verl.workers", "task.name", "algorithm.name", "filter.name"),
)
