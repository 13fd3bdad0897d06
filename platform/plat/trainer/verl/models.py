"""Which model a run with verl trains, and how many GPUs it takes (light: imports nothing heavy).

model.path           a local checkpoint in the Hugging Face format, where it is given
rendering `compact`  the stand-in that the embedded trainer would train: its base is in the Hugging Face format, too
rendering `chat`     the model of the paper, by its name on the Hugging Face hub
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from plat.errors import SpecError
from plat.suggest import mend
from plat.trainer.verl.checkpoint_size import Size, checkpoint_size
from plat.trainer.verl.config import VerlRunConfig
from plat.units import counted
from plat_envs.vocabulary import WORDS


@dataclass(frozen=True)
class PaperModel:
    """A model of the paper: its name on the hub, parameters in billions, and words of its vocabulary."""

    hub: str
    billions: float
    vocabulary: int


PAPER_MODELS = {
    "Qwen2.5-0.5B": PaperModel("Qwen/Qwen2.5-0.5B", 0.494, 151936),
    "Qwen2.5-1.5B": PaperModel("Qwen/Qwen2.5-1.5B", 1.544, 151936),
    "Qwen2.5-3B": PaperModel("Qwen/Qwen2.5-3B", 3.086, 151936),
    "Qwen2.5-3B-Instruct": PaperModel("Qwen/Qwen2.5-3B-Instruct", 3.086, 151936),
    "Qwen2.5-7B": PaperModel("Qwen/Qwen2.5-7B", 7.616, 152064),
    # The paper says Llama3.2-3B; its scripts start from the Instruct weights.
    "Llama3.2-3B": PaperModel("meta-llama/Llama-3.2-3B-Instruct", 3.213, 128256),
}

GPU_GB = 80  # memory of the GPUs that a run asks for
USABLE = 0.9  # of it
# Bytes of a parameter that is trained: float32 weights, gradients and Adam's two means; of one that is only read.
TRAINED, READ = 16, 4
LOGITS = 2.6  # copies of a micro-batch's logits at the peak, measured on a Qwen2 with 494 million parameters
SLOTS = (1, 2, 4, 8)  # GPUs of a node that a run may use


def paper_model(config: VerlRunConfig) -> PaperModel:
    """The paper's model of this config; SpecError when it is none of those that are known."""
    name = config.model.paper_name
    if name not in PAPER_MODELS:
        raise SpecError(
            f"no checkpoint is known for the model {name!r}",
            where="model.paper_name",
            mend=f"name a local checkpoint with model.path, or {mend(name, PAPER_MODELS, 'one of')}",
        )
    return PAPER_MODELS[name]


def is_stand_in(config: VerlRunConfig) -> bool:
    """Whether the run trains a stand-in, in place of a real language model."""
    return config.model.path is None and config.train.rendering == "compact"


def gpu_gigabytes(config: VerlRunConfig, gpus: int) -> float:
    """The memory of each GPU that the training part of a step takes at its peak, with the run on so many of them.

    The rollout engine sleeps meanwhile. Measured for 494 million parameters on one GPU: 36.7 GB (PPO: 47.6 GB) where
    this says 33.8 GB (41.7 GB).
    """
    size, algorithm = model_size(config), config.algorithm
    trained = READ + TRAINED * 0.02 if config.verl.lora_rank else TRAINED
    total = trained + (TRAINED if algorithm.advantage == "gae" else 0) + (READ if algorithm.kl_coef else 0)
    logits = LOGITS * config.verl.tokens_per_gpu * size.vocabulary * 4 / 1e9
    return size.billions * total / gpus + logits


def workers(config: VerlRunConfig) -> int:
    """Training processes on each node: `verl.workers`, or as many GPUs as the model needs.

    SpecError where even the largest number of GPUs is too few.
    """
    if config.verl.workers or config.device == "cpu" or is_stand_in(config):
        return config.verl.workers or 1
    for gpus in SLOTS:
        if gpu_gigabytes(config, gpus * config.verl.nodes) <= USABLE * GPU_GB:
            return max(gpus, config.verl.tensor_parallel)
    nodes = counted(config.verl.nodes, "node")
    raise SpecError(
        f"{config.model.path or config.model.paper_name} does not fit into {SLOTS[-1]} GPUs of {GPU_GB} GB on {nodes}",
        where="verl.nodes",
        mend="more nodes, a smaller verl.tokens_per_gpu, or verl.lora_rank; verl.workers overrules this estimate",
    )


def host_gigabytes(config: VerlRunConfig) -> int:
    """Memory of each node, in GiB: the processes, Ray's store, and the weights that each worker reads at the start."""
    return 32 + 16 * workers(config) + round(TRAINED * _billions(config))


KEPT = 4  # checkpoints at once: the last two, the peak's, and one that is being written
SAVED = 12  # bytes of a trained parameter in a checkpoint: float32, and Adam's two means


def checkpoint_bytes(config: VerlRunConfig) -> int:
    """What a run keeps on disk at most."""
    parameters = 1e9 * _billions(config)
    actor = READ if config.verl.lora_rank else SAVED
    return round(KEPT * parameters * (actor + (SAVED if config.algorithm.advantage == "gae" else 0))) + 8_000_000


# Seconds of an iteration of 8 x 16 trajectories of 5 turns with 400 tokens, PPO on 3.09 billion parameters on 4 GPUs:
# the middle of the paper's Table 5. What does not shrink with the work is a guess, and so is the scaling.
SECONDS, FIXED_SECONDS = 78.0, 15.0
LIMIT = 1.5  # a scheduler is given so much more


def seconds_per_iteration(config: VerlRunConfig) -> float:
    """A rough estimate, made before anything was measured; `plat plan` replaces it by what runs took here."""
    train, task = config.train, config.task
    tokens = train.prompts * train.group_size * task.turns * task.response_tokens / (8 * 16 * 5 * 400)
    speed = 4 / (workers(config) * config.verl.nodes)
    critic = 1.0 if config.algorithm.advantage == "gae" else 0.7
    return FIXED_SECONDS + (SECONDS - FIXED_SECONDS) * _billions(config) / 3.086 * tokens * speed * critic


def minutes(config: VerlRunConfig) -> int:
    """The wall-clock limit of a run, evaluations included; one that needs longer goes on from its checkpoint."""
    evaluations = 1 + config.train.iterations / config.eval.every
    played = config.eval.instances / (config.train.prompts * config.train.group_size)
    seconds = seconds_per_iteration(config)
    return round(LIMIT * (config.train.iterations * seconds + evaluations * played * seconds / 2) / 60) + 20


STAND_IN = Size(0.001, len(WORDS))


def model_size(config: VerlRunConfig) -> Size:
    """How large the model of a run is: a local checkpoint's own size, or that of the paper's model."""
    if config.model.path is not None:
        return checkpoint_size(Path(config.model.path))
    if is_stand_in(config):
        return STAND_IN
    model = paper_model(config)
    return Size(model.billions, model.vocabulary)


def _billions(config: VerlRunConfig) -> float:
    return model_size(config).billions
