"""Translate the run's config into verl's: the only place that maps plat's names to verl's names.

`overrides_of` returns pairs of dotted key and value, grouped by subject; `composition` merges them with verl's
defaults. Plat's own code does the rest: data (instances come from seeds), validation, logging, the schedule of
checkpoints, DAPO's refills, and the size of mini-batches, which depends on the rows that the filter keeps.
"""

from __future__ import annotations

import os
import shutil
import sysconfig
from pathlib import Path
from typing import Any

from plat_rl.verl.settings.models import workers
from plat_rl.verl.settings.verl_config import VerlRunConfig

AGENT_LOOPS = Path(__file__).parent / "agent_loops.yaml"
ACTOR, ROLLOUT, MODEL = "actor_rollout_ref.actor", "actor_rollout_ref.rollout", "actor_rollout_ref.model"
PRECISION = {"float32": "fp32", "bfloat16": "bf16"}
Settings = dict[str, Any]


def rollout_engine(config: VerlRunConfig) -> str:
    """Return the rollout engine: `verl.rollout`, where `auto` is hf on the CPU and vllm on GPUs."""
    if config.verl.rollout != "auto":
        return config.verl.rollout
    return "hf" if config.device == "cpu" else "vllm"


def response_tokens(config: VerlRunConfig) -> int:
    """Return the most tokens of a sequence after its prompt.

    With the context `full`: the responses of all turns and the observations between them. Otherwise: one response.
    """
    turns = config.task.turns if config.train.context == "full" else 1
    return turns * config.task.response_tokens + (turns - 1) * config.verl.observation_tokens


def overrides_of(config: VerlRunConfig, model: str) -> Settings:
    """Return all settings of a run in verl's config; `model` is the folder or hub name of the checkpoint."""
    return {
        **_algorithm(config),
        **_optimisers(config),
        **_sizes(config),
        **_rollout(config),
        **_model(config, model),
        **_devices(config),
        **_left_to_us(config),
    }


def decided_by_plat(config: VerlRunConfig) -> Settings:
    """Return the settings that `verl.overrides` may not change.

    They are the algorithm, the learning rates, and verl's logging, checkpoints and validation (plat does these).
    """
    # plat sets the learning rate at each update
    rates = {key: value for key, value in _optimisers(config).items() if key.endswith(".optim.lr")}
    return {**_algorithm(config), **_left_to_us(config), **rates}


def _algorithm(config: VerlRunConfig) -> Settings:
    """Return the settings that make PPO, GRPO, DAPO or Dr. GRPO (appendix B.2)."""
    algorithm = config.algorithm
    return {
        "algorithm.adv_estimator": algorithm.advantage,
        "algorithm.norm_adv_by_std_in_grpo": algorithm.norm_by_std,
        "algorithm.gamma": algorithm.gamma,
        "algorithm.lam": algorithm.lam,
        "algorithm.use_kl_in_reward": False,
        "algorithm.filter_groups.enable": False,  # verl's own refills have no limit
        "critic.enable": algorithm.advantage == "gae",
        f"{ACTOR}.loss_agg_mode": algorithm.loss_agg,
        # The constant that Dr. GRPO divides by: the most tokens that a trajectory may have.
        f"{ACTOR}.loss_scale_factor": config.task.turns * config.task.response_tokens,
        f"{ACTOR}.clip_ratio": algorithm.clip_low,
        f"{ACTOR}.clip_ratio_low": algorithm.clip_low,
        f"{ACTOR}.clip_ratio_high": algorithm.clip_high,
        f"{ACTOR}.clip_ratio_c": algorithm.clip_c,
        f"{ACTOR}.entropy_coeff": algorithm.entropy_coef,
        f"{ACTOR}.calculate_entropy": True,  # also measured if the loss does not contain it
        f"{ACTOR}.use_kl_loss": algorithm.kl_coef > 0,
        f"{ACTOR}.kl_loss_coef": algorithm.kl_coef,
        f"{ACTOR}.kl_loss_type": algorithm.kl_kind,
        "critic.cliprange_value": algorithm.value_clip,
        "critic.loss_agg_mode": "token-mean",  # independent of the actor's
        "critic.loss_scale_factor": None,
    }


def _optimisers(config: VerlRunConfig) -> Settings:
    """Return settings of Adam with decoupled weight decay and a constant learning rate, for actor and critic."""
    train = config.train
    settings: Settings = {}
    for part, rate in ((ACTOR, train.lr), ("critic", train.critic_lr)):
        settings |= {
            f"{part}.optim.lr": rate,
            f"{part}.optim.betas": [train.beta1, train.beta2],
            f"{part}.optim.weight_decay": train.weight_decay,
            f"{part}.optim.clip_grad": train.max_grad_norm,
            f"{part}.optim.lr_scheduler_type": "constant",
            f"{part}.optim.lr_warmup_steps": 0,
            f"{part}.optim.lr_warmup_steps_ratio": 0.0,
            f"{part}.ppo_epochs": 1,
            f"{part}.shuffle": False,
        }
    return settings


def _sizes(config: VerlRunConfig) -> Settings:
    """Return maximum lengths, and the number of tokens that a GPU processes at once."""
    train, verl = config.train, config.verl
    longest = verl.prompt_tokens + response_tokens(config)
    tokens = max(verl.tokens_per_gpu, longest)
    mini_batch = max(1, train.prompts // train.mini_batches)
    return {
        "data.train_batch_size": train.prompts,
        "data.max_prompt_length": verl.prompt_tokens,
        "data.max_response_length": response_tokens(config),
        f"{ACTOR}.ppo_mini_batch_size": mini_batch,
        f"{ACTOR}.use_dynamic_bsz": True,
        f"{ACTOR}.ppo_max_token_len_per_gpu": tokens,
        f"{ROLLOUT}.log_prob_max_token_len_per_gpu": tokens,
        "critic.ppo_mini_batch_size": mini_batch,
        "critic.ppo_max_token_len_per_gpu": tokens,
        "critic.forward_max_token_len_per_gpu": tokens,
    }


def _rollout(config: VerlRunConfig) -> Settings:
    engine = rollout_engine(config)
    return {
        f"{ROLLOUT}.name": engine,
        f"{ROLLOUT}.mode": "async",
        f"{ROLLOUT}.n": config.train.group_size,
        f"{ROLLOUT}.temperature": config.train.temperature,
        f"{ROLLOUT}.top_p": 1.0,
        f"{ROLLOUT}.top_k": -1,
        f"{ROLLOUT}.dtype": config.dtype,
        f"{ROLLOUT}.seed": config.seed,
        f"{ROLLOUT}.calculate_log_probs": True,
        f"{ROLLOUT}.tensor_model_parallel_size": config.verl.tensor_parallel,
        f"{ROLLOUT}.gpu_memory_utilization": config.verl.gpu_memory,
        f"{ROLLOUT}.max_model_len": config.verl.prompt_tokens + response_tokens(config),
        f"{ROLLOUT}.free_cache_engine": engine != "hf",
        f"{ROLLOUT}.agent.num_workers": 1 if config.device == "cpu" else 8 * config.verl.nodes,
        f"{ROLLOUT}.agent.default_agent_loop": "plat",
        f"{ROLLOUT}.agent.agent_loop_config_path": str(AGENT_LOOPS),
    }


def _model(config: VerlRunConfig, model: str) -> Settings:
    verl = config.verl
    settings: Settings = {
        f"{MODEL}.path": model,
        "critic.model.path": model,
        f"{MODEL}.lora_rank": verl.lora_rank,
        f"{MODEL}.lora_alpha": verl.lora_alpha,
        f"{MODEL}.lora.merge": verl.lora_rank > 0,  # every rollout engine gets merged weights
    }
    for part in (MODEL, "critic.model"):
        settings |= {
            f"{part}.use_remove_padding": _flash_attention(config),
            f"{part}.enable_gradient_checkpointing": config.device == "cuda",
            f"+{part}.override_config.attn_implementation": "flash_attention_2" if _flash_attention(config) else "sdpa",
        }
    return settings


def _flash_attention(config: VerlRunConfig) -> bool:
    """Return True if training may use flash-attention: on CUDA, not in float32, and if it is installed."""
    from importlib.util import find_spec

    return config.device == "cuda" and config.dtype != "float32" and find_spec("flash_attn") is not None


def _compiles(config: VerlRunConfig) -> bool:
    """Return True if verl may compile its functions: on CUDA, with the C compiler and headers that Triton needs."""
    compiler = os.environ.get("CC") or shutil.which("gcc") or shutil.which("clang")
    headers = Path(sysconfig.get_path("include"), "Python.h")
    return config.device == "cuda" and compiler is not None and headers.exists()


def _devices(config: VerlRunConfig) -> Settings:
    compiles = _compiles(config)
    mixed = {"param_dtype": PRECISION[config.dtype], "reduce_dtype": "fp32", "buffer_dtype": "fp32"}
    settings: Settings = {
        "trainer.device": config.device,
        "trainer.nnodes": config.verl.nodes,
        "trainer.n_gpus_per_node": workers(config),
        f"{ACTOR}.strategy": "fsdp2",
        "critic.strategy": "fsdp2",
        f"{ACTOR}.use_torch_compile": compiles,
        "actor_rollout_ref.ref.use_torch_compile": compiles,
    }
    for part in (f"{ACTOR}.fsdp_config", "critic.fsdp", "actor_rollout_ref.ref.fsdp_config"):
        settings |= {
            f"{part}.model_dtype": "fp32",  # weights of the optimiser; computation uses `mixed`
            f"+{part}.mixed_precision": mixed,
            f"{part}.seed": config.seed,
            f"{part}.use_torch_compile": compiles,
        }
    for part in (f"{ACTOR}.fsdp_config", "critic.fsdp"):
        settings |= {f"{part}.param_offload": config.verl.offload, f"{part}.optimizer_offload": config.verl.offload}
    return settings


def _left_to_us(config: VerlRunConfig) -> Settings:
    """Return the settings that switch off verl's logging, checkpoints and validation: the platform does these."""
    return {
        "trainer.use_v1": True,
        "trainer.v1.trainer_mode": "sync",
        "trainer.total_training_steps": config.train.iterations,
        "trainer.critic_warmup": 0,
        "trainer.logger": [],
        "trainer.save_freq": -1,
        "trainer.test_freq": -1,
        "trainer.val_before_train": False,
        "trainer.resume_mode": "disable",
        "trainer.project_name": "plat",
        "trainer.experiment_name": "run",
        "reward.num_workers": 0,  # environments give the rewards
        "transfer_queue.backend.SimpleStorage.num_data_storage_units": config.verl.nodes,
    }
