"""The typed config of a run, shared by every built-in trainer (light: imports nothing heavy).

Each dataclass is one Hydra config group or one block of `scale/*.yaml`; comments give units and choices.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from plat.rl.config import AlgorithmConfig, EarlyStopConfig, FilterConfig, MIConfig


@dataclass
class TaskConfig:
    """An environment (entry-point group `plat.environments`) and the shape of an episode in it."""

    name: str = "frozenlake"
    env: dict[str, Any] = field(default_factory=dict)  # options of the environment's own config dataclass
    turns: int = 5  # at most
    response_tokens: int = 24  # at most, per turn


@dataclass
class ShapeConfig:
    """A small transformer in the Qwen2 format."""

    layers: int = 2
    width: int = 64
    heads: int = 4
    kv_heads: int = 4
    ffn: int = 128
    rope_theta: float = 10000.0
    tie_embeddings: bool = True


@dataclass
class BaseConfig:
    """How a stand-in's base model is made: supervised training on demonstrations of all tasks together."""

    version: str = "v1"  # of vocabulary and demonstration grammar
    steps: int = 600
    batch: int = 128  # demonstrations per step
    lr: float = 3e-3
    grounded: float = 0.3  # share of grounded reasoning with good actions; the rest are templates with random actions
    seed: int = 0


@dataclass
class ModelConfig:
    """The paper's model and the stand-in that runs in its place; `path` names a local checkpoint instead."""

    name: str = "qwen2.5-3b"
    paper_name: str = "Qwen2.5-3B"
    path: str | None = None
    shape: ShapeConfig = field(default_factory=ShapeConfig)
    base: BaseConfig = field(default_factory=BaseConfig)


@dataclass
class TrainConfig:
    iterations: int = 40
    prompts: int = 8  # P
    group_size: int = 16  # G
    mini_batches: int = 4  # updates per iteration
    lr: float = 3e-4
    critic_lr: float = 1e-3
    critic_warmup: int = 0  # iterations in which only the critic is trained
    beta1: float = 0.9
    beta2: float = 0.999
    weight_decay: float = 0.0
    max_grad_norm: float = 1.0
    temperature: float = 1.0
    context: str = "current"  # current | full
    rendering: str = "compact"  # compact | chat
    checkpoint_every: int = 10
    micro_batch: int = 0  # sequences per forward pass; 0: a whole mini-batch. Operational


@dataclass
class EvalConfig:
    every: int = 10
    instances: int = 256  # fixed validation instances
    heldout: int = 256  # a second fixed set, for the peak checkpoint
    temperature: float = 0.5
    seed: int = 123


@dataclass
class RunConfig:
    """Everything a run is a function of. `scale` is the name of the scale its other values came from."""

    trainer: str = "embedded"
    scale: str = "laptop"
    seed: int = 0
    task: TaskConfig = field(default_factory=TaskConfig)
    algorithm: AlgorithmConfig = field(default_factory=AlgorithmConfig)
    model: ModelConfig = field(default_factory=ModelConfig)
    filter: FilterConfig = field(default_factory=FilterConfig)
    mi: MIConfig = field(default_factory=MIConfig)
    early_stop: EarlyStopConfig = field(default_factory=EarlyStopConfig)
    train: TrainConfig = field(default_factory=TrainConfig)
    eval: EvalConfig = field(default_factory=EvalConfig)
    device: str = "cpu"  # cpu | cuda
    dtype: str = "float32"
    threads: int = 1  # per run; affects the last bits, hence part of the identity
