"""The typed config of a run, shared by every built-in trainer (light: imports nothing heavy).

Each dataclass is one Hydra config group or one block of `scale/*.yaml`. `plat options` shows the comment beside a
field, with the unit in brackets (`plat.spec.composition.descriptions`). Choices, ranges and plugins are field metadata,
which `plat.spec` checks for any trainer's config_type:

    choices                    the valid strings
    minimum, maximum           inclusive limits
    above, below               exclusive limits
    infinite                   True: infinity is a valid value (otherwise refused, as NaN always is)
    plugin                     an entry-point group: the value is the name of one of its plugins
    options_of                 a sibling field with `plugin`: the options of that plugin's own config_type
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from plat.trainer.config_fields import choice, number
from plat_rl.rl.config import AlgorithmConfig, EarlyStopConfig, FilterConfig, GradientConfig, MIConfig


@dataclass
class TaskConfig:
    """An environment (entry-point group `plat.environments`) and the shape of an episode in it."""

    # the environment, by the name under which a package publishes it
    name: str = field(default="frozenlake", metadata={"plugin": "plat.environments"})
    env: dict[str, Any] = field(default_factory=dict, metadata={"options_of": "name"})  # the environment's own options
    turns: int = number(5, minimum=1)  # of an episode, at most [turns]
    response_tokens: int = number(24, minimum=1)  # of a response, at most, per turn [tokens]
    token_cost: float = number(0.0, minimum=0)  # what each response token costs, the end of text included [reward]
    # standard deviation of zero-mean Gaussian noise on the return of each training trajectory; 0: none [reward]
    reward_noise: float = number(0.0, minimum=0)


@dataclass
class ShapeConfig:
    """A small transformer in the Qwen2 format."""

    layers: int = number(2, minimum=1)  # of the stand-in [layers]
    width: int = number(64, minimum=1)  # of the residual stream, a multiple of `heads`
    heads: int = number(4, minimum=1)  # attention heads of a layer
    kv_heads: int = number(4, minimum=1)  # heads of keys and values, which several attention heads may share
    ffn: int = number(128, minimum=1)  # width of the feed-forward part of a layer
    rope_theta: float = number(10000.0, above=0)  # base of the rotary position embedding
    tie_embeddings: bool = True  # the same matrix reads tokens and predicts them


@dataclass
class BaseConfig:
    """How a stand-in's base model is made: supervised training on demonstrations of all tasks together."""

    version: str = "v2"  # which tasks and demonstration grammar a base has seen
    steps: int = number(1500, minimum=0)  # of supervised training [steps]
    batch: int = number(64, minimum=1)  # demonstrations per step [demonstrations]
    pool: int = number(20000, minimum=1)  # demonstrations per task that the steps draw from [demonstrations]
    lr: float = number(5e-3, above=0)  # learning rate of the supervised training
    # Levels of reasoning among the demonstrations; what is left of 1 are templates.
    # share of demonstrations with one or several true facts, and a good action
    grounded: float = number(0.3, minimum=0, maximum=1)
    wrong: float = number(0.1, minimum=0, maximum=1)  # share of demonstrations with wrong facts, and a random action
    # share of the templates with a good action, the others have a random one; 1: acting well needs no reasoning
    usefulness: float = number(0.25, minimum=0, maximum=1)
    seed: int = number(0, minimum=0)  # of this build of the base model: another one is another base


@dataclass
class ModelConfig:
    """The paper's model and the stand-in that runs in its place; `path` names a local checkpoint instead."""

    name: str = "qwen2.5-3b"  # of the config group's option that was chosen; says nothing by itself
    paper_name: str = "Qwen2.5-3B"  # of the model that the paper trained, which reports name
    path: str | None = None  # a local checkpoint in the Qwen2 format to start from, in place of a stand-in
    shape: ShapeConfig = field(default_factory=ShapeConfig)
    vision_width: int = number(0, minimum=0)  # features of a picture's patch, in a stand-in that sees; 0: it only reads
    base: BaseConfig = field(default_factory=BaseConfig)


@dataclass
class TrainConfig:
    # of the run: a rollout and its updates each [iterations]
    iterations: int = number(40, minimum=0, maximum=10_000_000)
    prompts: int = number(8, minimum=1)  # P, the prompts of a batch [prompts]
    group_size: int = number(16, minimum=1)  # G, the trajectories of a prompt [trajectories]
    mini_batches: int = number(4, minimum=1)  # into which a batch is divided: updates per iteration [updates]
    lr: float = number(3e-4, minimum=0)  # learning rate of the policy
    critic_lr: float = number(1e-3, minimum=0)  # learning rate of the critic
    critic_warmup: int = number(0, minimum=0)  # at the beginning, in which only the critic is trained [iterations]
    beta1: float = number(0.9, minimum=0, below=1)  # of Adam: share of the earlier mean of gradients
    beta2: float = number(0.999, minimum=0, below=1)  # of Adam: share of the earlier mean of squared gradients
    weight_decay: float = number(0.0, minimum=0)  # by which weights shrink with each step, times the learning rate
    max_grad_norm: float = number(1.0, above=0)  # to which a longer gradient is shortened
    temperature: float = number(1.0, above=0)  # of the sampling in rollouts
    # what the policy sees of an episode: the present state | everything so far
    context: str = choice("current", "full")
    # how observations are written: few tokens, for stand-ins | natural language, for real LLMs | few tokens and a
    # picture of the board | natural language and a picture of the board
    rendering: str = choice("compact", "chat", "compact_image", "chat_image")
    pictures: bool = False  # show the board as a picture whatever the scale's rendering: adds `_image` to it
    checkpoint_every: int = number(10, minimum=1)  # from one checkpoint to the next [iterations]
    # prompts that the base model plays before training, only to measure its rewards; 0: none [prompts]
    precheck: int = number(0, minimum=0)
    # also log how the reward variance is spread over the prompts of a batch, and how many are easy or hard
    prompt_metrics: bool = False
    # trajectories per backward pass; 0: a whole mini-batch. Operational [trajectories]
    micro_batch: int = number(0, minimum=0)


@dataclass
class EvalConfig:
    every: int = number(10, minimum=1)  # from one evaluation to the next [iterations]
    instances: int = number(256, minimum=1)  # fixed validation instances [instances]
    heldout: int = number(256, minimum=0)  # a second fixed set, for the peak checkpoint [instances]
    temperature: float = number(0.5, minimum=0)  # of the sampling in evaluations; 0: greedy
    seed: int = number(123, minimum=0)  # of the sampling in evaluations
    # play the validation instances also with reasonings swapped between them, and blanked: is reasoning used?
    reasoning_swap: bool = False
    # keep what was said and done in so many validation instances, at every evaluation; 0: none [instances]
    trajectories: int = number(0, minimum=0, maximum=64)


@dataclass
class RunConfig:
    """Everything a run is a function of. `scale` is the name of the scale its other values came from."""

    trainer: str = "embedded"  # who trains, by the name under which a package publishes it
    scale: str = "laptop"  # the config group's option that the other values came from
    seed: int = number(0, minimum=0)  # of everything random in the run, the base model apart
    task: TaskConfig = field(default_factory=TaskConfig)
    algorithm: AlgorithmConfig = field(default_factory=AlgorithmConfig)
    model: ModelConfig = field(default_factory=ModelConfig)
    filter: FilterConfig = field(default_factory=FilterConfig)
    mi: MIConfig = field(default_factory=MIConfig)
    gradient: GradientConfig = field(default_factory=GradientConfig)
    early_stop: EarlyStopConfig = field(default_factory=EarlyStopConfig)
    train: TrainConfig = field(default_factory=TrainConfig)
    eval: EvalConfig = field(default_factory=EvalConfig)
    device: str = choice("cpu", "cuda")  # where the run computes
    dtype: str = choice("float32", "bfloat16", "float16", "float64")  # type of the numbers that the run computes with
    threads: int = number(1, minimum=1)  # per run; affects the last bits, hence part of the identity [threads]
