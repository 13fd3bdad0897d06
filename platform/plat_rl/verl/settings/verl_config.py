"""The typed config of a run with verl: that of every built-in trainer, and what only verl has (light)."""

from __future__ import annotations

from dataclasses import dataclass, field

from plat.trainer.config_fields import choice, number
from plat_rl.run_config import RunConfig, TrainConfig


@dataclass
class VerlTrainConfig(TrainConfig):
    # what the policy sees of an episode: everything so far, in one sequence | the present state, a sequence a turn
    context: str = choice("full", "current")


@dataclass
class VerlConfig:
    """How verl computes a run: processes, memory and engines."""

    # what generates; auto: hf on the CPU, vllm on GPUs
    rollout: str = choice("auto", "hf", "vllm", "sglang")
    # training processes of each node, each with a GPU of its own; 0: as many as the model needs [processes]
    workers: int = number(0, minimum=0)
    nodes: int = number(1, minimum=1)  # machines of a run [nodes]
    tensor_parallel: int = number(1, minimum=1)  # GPUs that share one copy of the rollout's model [GPUs]
    gpu_memory: float = number(0.5, above=0, below=1)  # of each GPU, for the rollout engine. Operational [share]
    tokens_per_gpu: int = number(16384, minimum=128)  # of a micro-batch, at most. Operational [tokens]
    prompt_tokens: int = number(1024, minimum=1)  # of the first prompt, or with train.context=current of any [tokens]
    observation_tokens: int = number(400, minimum=1)  # of each later observation, at most [tokens]
    lora_rank: int = number(0, minimum=0)  # train adapters of this rank; 0: train all weights
    lora_alpha: int = number(64, minimum=1)  # the adapters' scale, divided by their rank
    offload: bool = False  # keep weights and optimiser in the host's memory while they are not used. Operational
    # further settings of verl's own config, e.g. ["actor_rollout_ref.rollout.enforce_eager=True"]; they win
    overrides: list[str] = field(default_factory=list)


@dataclass
class VerlRunConfig(RunConfig):
    """Everything a run with verl is a function of."""

    trainer: str = "verl"  # who trains, by the name under which a package publishes it
    train: VerlTrainConfig = field(default_factory=VerlTrainConfig)
    verl: VerlConfig = field(default_factory=VerlConfig)
