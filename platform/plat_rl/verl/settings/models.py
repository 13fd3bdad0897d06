"""Choose the model of a run with verl, find its files, and estimate its GPUs, memory, disk and time (light).

model.path                  a local checkpoint in the Hugging Face format, if given
rendering `compact[_image]` the base model that the embedded trainer would train, as a stand-in
rendering `chat[_image]`    the model of the paper, by its name on the Hugging Face hub
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from plat.errors import RunError, SpecError
from plat.suggest import suggest
from plat.units import counted
from plat_envs.stand_in import WORDS
from plat_rl.verl.settings.verl_config import VerlRunConfig


class Size(NamedTuple):
    """Parameters in billions, and tokens of the vocabulary."""

    billions: float
    vocabulary: int


class PaperModel(NamedTuple):
    """A model of the paper: its name on the hub, and its size."""

    hub: str
    size: Size


PAPER_MODELS = {
    "Qwen2.5-0.5B": PaperModel("Qwen/Qwen2.5-0.5B", Size(0.494, 151936)),
    "Qwen2.5-1.5B": PaperModel("Qwen/Qwen2.5-1.5B", Size(1.544, 151936)),
    "Qwen2.5-3B": PaperModel("Qwen/Qwen2.5-3B", Size(3.086, 151936)),
    "Qwen2.5-3B-Instruct": PaperModel("Qwen/Qwen2.5-3B-Instruct", Size(3.086, 151936)),
    "Qwen2.5-7B": PaperModel("Qwen/Qwen2.5-7B", Size(7.616, 152064)),
    "Qwen2.5-VL-3B": PaperModel("Qwen/Qwen2.5-VL-3B-Instruct", Size(3.755, 151936)),
    # The paper says Llama3.2-3B; its scripts start from the Instruct weights.
    "Llama3.2-3B": PaperModel("meta-llama/Llama-3.2-3B-Instruct", Size(3.213, 128256)),
}

GPU_GB = 80  # memory of the GPUs that a run requests
USABLE = 0.9  # share of that memory
# Bytes per parameter. Trained: float32 weights, gradients and Adam's two means. Read: float32 weights.
TRAINED, READ = 16, 4
LOGITS = 2.6  # copies of a micro-batch's logits at the peak, measured on a Qwen2 of 494 million parameters
SLOTS = (1, 2, 4, 8)  # GPUs of a node that a run may use


def paper_model(config: VerlRunConfig) -> PaperModel:
    """Return the paper's model of this config. Raises SpecError if `model.paper_name` is unknown."""
    name = config.model.paper_name
    if name not in PAPER_MODELS:
        raise SpecError(
            f"no checkpoint is known for the model {name!r}",
            where="model.paper_name",
            fix=f"name a local checkpoint with model.path, or {suggest(name, PAPER_MODELS, 'one of')}",
        )
    return PAPER_MODELS[name]


def is_stand_in(config: VerlRunConfig) -> bool:
    """Return True if the run trains a stand-in instead of a real language model."""
    return config.model.path is None and config.train.rendering in ("compact", "compact_image")


def gpu_gigabytes(config: VerlRunConfig, gpus: int) -> float:
    """Return the peak memory of each of `gpus` GPUs in the training part of a step, in GB.

    The rollout engine sleeps meanwhile. With 494 million parameters on one GPU this gives 33.8 GB (PPO: 41.7 GB);
    measured were 36.7 GB (PPO: 47.6 GB).
    """
    size, algorithm = model_size(config), config.algorithm
    trained = READ + TRAINED * 0.02 if config.verl.lora_rank else TRAINED
    total = trained + (TRAINED if algorithm.advantage == "gae" else 0) + (READ if algorithm.kl_coef else 0)
    logits = LOGITS * config.verl.tokens_per_gpu * size.vocabulary * 4 / 1e9
    return size.billions * total / gpus + logits


def workers(config: VerlRunConfig) -> int:
    """Return the number of training processes of each node: `verl.workers`, or as many GPUs as the model needs.

    Without `verl.workers` it is 1 on the CPU and for a stand-in, and at least `verl.tensor_parallel` otherwise. Raises
    SpecError if the model does not fit into the largest number of GPUs.
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
        fix="more nodes, a smaller verl.tokens_per_gpu, or verl.lora_rank; verl.workers overrules this estimate",
    )


def host_gigabytes(config: VerlRunConfig) -> int:
    """Return the memory of each node in GiB: processes, Ray's store, and weights read by each worker at the start."""
    return 32 + 16 * workers(config) + round(TRAINED * model_size(config).billions)


KEPT = 4  # checkpoints at once: the last two, the peak's, and one being written
SAVED = 12  # bytes of a trained parameter in a checkpoint: float32, and Adam's two means


def checkpoint_bytes(config: VerlRunConfig) -> int:
    """Return an estimate of the bytes that a run keeps on disk at most: KEPT checkpoints and 8 MB."""
    parameters = 1e9 * model_size(config).billions
    actor = READ if config.verl.lora_rank else SAVED
    return round(KEPT * parameters * (actor + (SAVED if config.algorithm.advantage == "gae" else 0))) + 8_000_000


# Seconds of an iteration of 8 x 16 trajectories of 5 turns with 400 tokens, PPO on 3.09 billion parameters on 4 GPUs:
# the middle of the paper's Table 5. The fixed part and the scaling are guesses.
SECONDS, FIXED_SECONDS = 78.0, 15.0
LIMIT = 1.5  # time limit / estimate


def seconds_per_iteration(config: VerlRunConfig) -> float:
    """Return a rough estimate before any measurement; `plat plan` replaces it by the times of earlier runs."""
    train, task = config.train, config.task
    tokens = train.prompts * train.group_size * task.turns * task.response_tokens / (8 * 16 * 5 * 400)
    speed = 4 / (workers(config) * config.verl.nodes)
    critic = 1.0 if config.algorithm.advantage == "gae" else 0.7
    return FIXED_SECONDS + (SECONDS - FIXED_SECONDS) * model_size(config).billions / 3.086 * tokens * speed * critic


def minutes(config: VerlRunConfig) -> int:
    """Return a run's wall-clock limit in minutes, evaluations included; a longer run resumes from its checkpoint."""
    evaluations = 1 + config.train.iterations / config.eval.every
    played = config.eval.instances / (config.train.prompts * config.train.group_size)
    seconds = seconds_per_iteration(config)
    return round(LIMIT * (config.train.iterations * seconds + evaluations * played * seconds / 2) / 60) + 20


def model_size(config: VerlRunConfig) -> Size:
    """Return the size of a run's model: of the local checkpoint if there is one, otherwise of the named model."""
    if config.model.path is not None:
        return checkpoint_size(Path(config.model.path))
    if is_stand_in(config):
        return Size(0.001, len(WORDS))
    return paper_model(config).size


LARGEST_HEADER = 100_000_000  # bytes, the limit of the safetensors format


def checkpoint_size(folder: Path) -> Size:
    """Return the size of a checkpoint with config.json and *.safetensors. Every tensor counts once.

    Raises SpecError if config.json or a *.safetensors file cannot be read, but not if there is no such file.
    """
    try:
        config = json.loads((folder / "config.json").read_bytes())
        vocabulary = int(config.get("vocab_size") or config["text_config"]["vocab_size"])
        parameters = sum(_parameters(file) for file in sorted(folder.glob("*.safetensors")))
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise SpecError(
            f"the checkpoint at {folder} cannot be read: {error}",
            where="model.path",
            fix="name a folder with config.json and *.safetensors",
        ) from error
    return Size(parameters / 1e9, vocabulary)


def _parameters(file: Path) -> int:
    """Count the numbers in a safetensors file by its header: its length (8 bytes), then JSON."""
    with file.open("rb") as stream:
        length = int.from_bytes(stream.read(8), "little")
        if length > LARGEST_HEADER:
            raise ValueError(f"{file.name} is no safetensors file")
        header = json.loads(stream.read(length))
    return sum(math.prod(entry["shape"]) for name, entry in header.items() if name != "__metadata__")


class ModelFiles(NamedTuple):
    """The checkpoint of a run.

    path          a folder, or a name on the Hugging Face hub
    identity      must be the same for all attempts of a run
    description   of the trained model, for result.json
    """

    path: str
    identity: str
    description: dict[str, Any]


def model_files(config: VerlRunConfig, cache: Path) -> ModelFiles:
    """Return the checkpoint of this config; build a stand-in's base that is neither shipped nor in the cache.

    A paper's model is not downloaded: its path and identity are its hub name. Raises SpecError if `model.path` has no
    checkpoint or the paper's model is unknown, CheckpointError if a shipped base is damaged or a build diverges.
    """
    from plat_rl.embedded.base_model.base_record import checkpoint_hash
    from plat_rl.embedded.base_model.load import obtain

    if is_stand_in(config):
        base = obtain(config.model, cache)
        facts = {"model_really": f"stand-in for {config.model.paper_name}", "stand_in": True}
        vocabulary = json.loads((base.folder / "config.json").read_text())["vocab_size"]
        facts |= {"parameters": base.parameters, "vocabulary": vocabulary}
        return ModelFiles(str(base.folder), base.sha256, facts)
    if config.model.path is not None:
        facts = {"model_really": config.model.path, "stand_in": False}
        return ModelFiles(config.model.path, checkpoint_hash(Path(config.model.path)), facts)
    hub, size = paper_model(config)
    facts = {"model_really": hub, "stand_in": False, "parameters": int(size.billions * 1e9)}
    return ModelFiles(hub, hub, facts | {"vocabulary": size.vocabulary})


# The resources that verl reserves on the nodes of a Ray cluster, and a bounded wait for them.
#
# verl waits for its reservations silently and without limit, so they are checked before verl starts.

CPUS_OF_A_WORKER = 3  # CPUs that verl reserves for each GPU
CPUS_BESIDE = 8  # for servers, agent workers and TransferQueue
TICK = 0.5  # seconds between two polls of Ray


@dataclass(frozen=True)
class Reservation:
    """A number of nodes, and the GPUs and CPUs reserved on each."""

    nodes: int
    gpus: int
    cpus: int

    def fits(self, resources: Mapping[str, float]) -> bool:
        """Return True if a node with these resources, as Ray lists them, has the GPUs and CPUs."""
        return resources.get("GPU", 0) >= self.gpus and resources.get("CPU", 0) >= self.cpus


def reservation_of(config: VerlRunConfig) -> Reservation:
    """Return the nodes that verl needs for this run, and the GPUs and CPUs that it reserves on each.

    Each training process of a node takes one GPU and `CPUS_OF_A_WORKER` CPUs. Raises SpecError if the model does not
    fit into the largest number of GPUs.
    """
    return Reservation(config.verl.nodes, workers(config), CPUS_OF_A_WORKER * workers(config))


def wait_for_nodes(
    needed: Reservation,
    nodes: Callable[[], Sequence[Mapping[str, Any]]],
    within: float,
    still_coming: Callable[[], bool] = lambda: True,
) -> None:
    """Return when enough nodes have what the reservation needs.

    nodes         returns the nodes of the cluster as Ray lists them: {"Alive", "Resources", ...}
    within        seconds to wait
    still_coming  returns False if no further node will join

    Raises RunError, with what is missing, after `within` seconds or as soon as no further node will join.
    """
    started = time.monotonic()
    while True:
        last = time.monotonic() - started >= within or not still_coming()
        alive = [node["Resources"] for node in nodes() if node["Alive"]]
        if sum(map(needed.fits, alive)) >= needed.nodes:
            return
        if last:
            raise _too_small(needed, alive, time.monotonic() - started)
        time.sleep(TICK)


def _too_small(needed: Reservation, alive: Sequence[Mapping[str, float]], waited: float) -> RunError:
    each = "each " if needed.nodes > 1 else ""
    there = "; ".join(_counts(node.get("GPU", 0), node.get("CPU", 0)) for node in alive) or "nothing"
    missing = len(alive) < needed.nodes
    return RunError(
        f"verl needs {counted(needed.nodes, 'node')} {each}with {_counts(needed.gpus, needed.cpus)}; "
        f"after {waited:.0f} s the Ray cluster has {counted(len(alive), 'node')}: {there}",
        failure_class="node" if missing else "error",
        fix=_what_to_do(needed, alive, missing),
    )


def _counts(gpus: float, cpus: float) -> str:
    return f"{counted(int(gpus), 'GPU')} and {counted(int(cpus), 'CPU')}"


def _what_to_do(needed: Reservation, alive: Sequence[Mapping[str, float]], missing: bool) -> str:
    if missing:
        return "the run's log says why the other nodes did not join; on an existing cluster, start Ray on these nodes"
    if sum(node.get("GPU", 0) >= needed.gpus for node in alive) >= needed.nodes:
        return (
            f"ask for at least {needed.cpus} CPUs on each node ({CPUS_OF_A_WORKER} for each training process): "
            f"cluster.threads={needed.cpus} with --on slurm, --num-cpus of `ray start`; or set fewer verl.workers"
        )
    return f"ask for {counted(needed.gpus, 'GPU')} on each node (cluster.gpus={needed.gpus}), or set fewer verl.workers"
