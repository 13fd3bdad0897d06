"""The typed config of a run, shared by every built-in trainer (light: imports nothing heavy).

Each dataclass is one Hydra config group or one block of `scale/*.yaml`; comments give units. Choices, ranges and
plugins are field metadata, which `plat.spec` checks for any trainer's config_type:

    choices                    the valid strings
    minimum, maximum           inclusive limits
    above, below               exclusive limits
    infinite                   True: infinity is a value too (it is refused otherwise, as NaN always is)
    plugin                     an entry-point group: the value is the name of one of its plugins
    options_of                 a sibling field with `plugin`: the options of that plugin's own config_type
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from plat.rl.config import AlgorithmConfig, EarlyStopConfig, FilterConfig, MIConfig, choice, number


@dataclass
class TaskConfig:
    """An environment (entry-point group `plat.environments`) and the shape of an episode in it."""

    name: str = field(default="frozenlake", metadata={"plugin": "plat.environments"})
    env: dict[str, Any] = field(default_factory=dict, metadata={"options_of": "name"})
    turns: int = number(5, minimum=1)  # at most
    response_tokens: int = number(24, minimum=1)  # at most, per turn
    token_cost: float = number(0.0, minimum=0)  # what each response token costs, the end of text included


@dataclass
class ShapeConfig:
    """A small transformer in the Qwen2 format."""

    layers: int = number(2, minimum=1)
    width: int = number(64, minimum=1)
    heads: int = number(4, minimum=1)
    kv_heads: int = number(4, minimum=1)
    ffn: int = number(128, minimum=1)
    rope_theta: float = number(10000.0, above=0)
    tie_embeddings: bool = True


@dataclass
class BaseConfig:
    """How a stand-in's base model is made: supervised training on demonstrations of all tasks together."""

    version: str = "v2"  # which tasks and demonstration grammar a base has seen
    steps: int = number(1500, minimum=0)
    batch: int = number(64, minimum=1)  # demonstrations per step
    pool: int = number(20000, minimum=1)  # demonstrations per task that the steps draw from
    lr: float = number(5e-3, above=0)
    # Levels of reasoning among the demonstrations; what is left of 1 are templates.
    grounded: float = number(0.3, minimum=0, maximum=1)  # share with one or several true facts, and a good action
    wrong: float = number(0.1, minimum=0, maximum=1)  # share with wrong facts, and a random action
    # share of the templates with a good action, the others have a random one; 1: acting well needs no reasoning
    usefulness: float = number(0.25, minimum=0, maximum=1)
    seed: int = number(0, minimum=0)


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
    iterations: int = number(40, minimum=0, maximum=10_000_000)
    prompts: int = number(8, minimum=1)  # P
    group_size: int = number(16, minimum=1)  # G
    mini_batches: int = number(4, minimum=1)  # updates per iteration
    lr: float = number(3e-4, minimum=0)
    critic_lr: float = number(1e-3, minimum=0)
    critic_warmup: int = number(0, minimum=0)  # iterations in which only the critic is trained
    beta1: float = number(0.9, minimum=0, below=1)
    beta2: float = number(0.999, minimum=0, below=1)
    weight_decay: float = number(0.0, minimum=0)
    max_grad_norm: float = number(1.0, above=0)
    temperature: float = number(1.0, above=0)
    context: str = choice("current", "full")
    rendering: str = choice("compact", "chat")
    checkpoint_every: int = number(10, minimum=1)
    micro_batch: int = number(0, minimum=0)  # trajectories per backward pass; 0: a whole mini-batch. Operational


@dataclass
class EvalConfig:
    every: int = number(10, minimum=1)
    instances: int = number(256, minimum=1)  # fixed validation instances
    heldout: int = number(256, minimum=0)  # a second fixed set, for the peak checkpoint
    temperature: float = number(0.5, minimum=0)  # 0: greedy
    seed: int = number(123, minimum=0)


@dataclass
class RunConfig:
    """Everything a run is a function of. `scale` is the name of the scale its other values came from."""

    trainer: str = "embedded"
    scale: str = "laptop"
    seed: int = number(0, minimum=0)
    task: TaskConfig = field(default_factory=TaskConfig)
    algorithm: AlgorithmConfig = field(default_factory=AlgorithmConfig)
    model: ModelConfig = field(default_factory=ModelConfig)
    filter: FilterConfig = field(default_factory=FilterConfig)
    mi: MIConfig = field(default_factory=MIConfig)
    early_stop: EarlyStopConfig = field(default_factory=EarlyStopConfig)
    train: TrainConfig = field(default_factory=TrainConfig)
    eval: EvalConfig = field(default_factory=EvalConfig)
    device: str = choice("cpu", "cuda")
    dtype: str = choice("float32", "bfloat16", "float16", "float64")
    threads: int = number(1, minimum=1)  # per run; affects the last bits, hence part of the identity
