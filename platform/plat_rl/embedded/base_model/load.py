"""The model a run starts from: a shipped base, one built on this machine, or a local checkpoint."""

from __future__ import annotations

import json
import os
import platform
import random
import shutil
from pathlib import Path
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from filelock import FileLock
from torch import Tensor

from plat.errors import CheckpointError, SpecError
from plat_envs.api import make_environment, teacher
from plat_envs.stand_in import Mix, demonstrations
from plat_rl.embedded.base_model.base_record import (
    NUMERICS,
    RECORD,
    BaseRecord,
    Corpus,
    base_key,
    built_bases,
    checkpoint_hash,
    corpora_of,
    read_base,
    recipe,
    recipe_hash,
    record_of,
    shipped_base,
)
from plat_rl.embedded.batch import pad_prompts
from plat_rl.embedded.transformer import hf
from plat_rl.embedded.transformer.model import Shape, Weights, encode, extend, initialise, unpack
from plat_rl.embedded.transformer.tokenizer import Tokenizer, WordTokenizer, save_word_tokenizer, tokenizer_of
from plat_rl.run_config import BaseConfig, ModelConfig, RunConfig


class Base(NamedTuple):
    """The model a run starts from; `sha256` is the content hash of its folder."""

    shape: Shape
    parameters: Tensor
    tokenizer: Tokenizer
    sha256: str


def load_base(config: RunConfig, cache: Path) -> Base:
    """Return the model a run starts from; build a stand-in's base that is neither shipped nor in the cache.

    Raises SpecError if `model.path` has no checkpoint, or one that does not fit the rendering, and CheckpointError if a
    shipped base or the checkpoint is damaged.
    """
    dtype = getattr(torch, config.dtype)
    if config.model.path is None:
        record = obtain(config.model, cache)
        return Base(*hf.load(record.folder, dtype, config.device), words_of(config.model), record.sha256)
    folder = Path(config.model.path)
    shape, flat = hf.load(folder, dtype, config.device)
    tokenizer = tokenizer_of(folder)
    if isinstance(tokenizer, WordTokenizer) and config.train.rendering != "compact":
        raise SpecError(
            "a stand-in model knows only the compact rendering",
            where="train.rendering",
            fix="use train.rendering=compact",
        )
    return Base(shape, flat, tokenizer, checkpoint_hash(folder))


def empty_model(config: RunConfig) -> tuple[Shape, Tokenizer]:
    """Return shape and tokenizer for weights from a run's checkpoint. Reads `model.path`, but no stand-in's base."""
    if config.model.path is not None:
        folder = Path(config.model.path)
        return hf.load(folder)[0], tokenizer_of(folder)
    return stand_in_shape(config.model), words_of(config.model)


def words_of(model: ModelConfig) -> WordTokenizer:
    """Return the tokenizer of a stand-in."""
    return WordTokenizer(vision=model.vision_width > 0)


def stand_in_shape(model: ModelConfig) -> Shape:
    """Return the shape of a stand-in."""
    return hf.shape_of(model.shape, words_of(model).vocabulary, model.vision_width)


def obtain(model: ModelConfig, cache: Path) -> BaseRecord:
    """Return the shipped base of this recipe, else that in the cache, which is built if it is missing or damaged."""
    return shipped_base(model) or build(model, built_bases(cache))


def build(model: ModelConfig, bases: Path) -> BaseRecord:
    """Return this recipe's base in `bases`; build it, printing progress, unless it is intact. Other processes wait."""
    folder = bases / base_key(model)
    bases.mkdir(parents=True, exist_ok=True)
    with FileLock(bases / f"{folder.name}.lock"):
        try:
            known = read_base(folder, recipe_hash(model))
        except CheckpointError as error:
            print(f"{error.what} ({error.where}): the base model is built again", flush=True)
            known = None
        if known is not None:
            return known
        for remains in (folder, *bases.glob(f".{folder.name}-*")):  # damaged, or of a build that was killed
            shutil.rmtree(remains, ignore_errors=True)
        scratch = bases / f".{folder.name}-{os.getpid()}"
        scratch.mkdir()
        _train_into(scratch, model)
        scratch.rename(folder)
        built = read_base(folder, recipe_hash(model))
    assert built is not None
    return built


def _train_into(folder: Path, model: ModelConfig) -> None:
    """Train the base and write its files and its record durably."""
    tokenizer, shape = words_of(model), stand_in_shape(model)
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # their number changes the last bits, and is not in the recipe
    try:
        flat, losses = train_base(model.base, shape, tokenizer)
    finally:
        torch.set_num_threads(threads)
    hf.save(folder, shape, flat)
    save_word_tokenizer(folder, tokenizer)
    for file in folder.iterdir():
        file.chmod(0o644)  # safetensors makes files that only their owner may read
    record = record_of(
        folder, model.name, recipe(model), parameters=shape.parameters, loss=losses, built_with=_surroundings()
    )
    (folder / RECORD).write_text(json.dumps(record.to_json(), indent=1) + "\n")
    for file in folder.iterdir():
        with file.open("rb") as stream:
            os.fsync(stream.fileno())


def _surroundings() -> dict[str, str]:
    """Return what may change the last bits of a base: versions, CPU and its options."""
    from plat import __version__

    return {
        "plat": __version__,
        "torch": str(torch.__version__),
        "python": platform.python_version(),
        "cpu": f"{platform.machine()} {torch.backends.cpu.get_cpu_capability()}",
        **{name: os.environ[name] for name in NUMERICS if name in os.environ},
    }


def describe(config: RunConfig, shape: Shape) -> dict[str, Any]:
    """Return `model_really` (in words), `stand_in`, `parameters` and `vocabulary` for result.json and the report."""
    stand_in = config.model.path is None
    return {
        "model_really": f"stand-in for {config.model.paper_name}" if stand_in else str(config.model.path),
        "stand_in": stand_in,
        "parameters": shape.parameters,
        "vocabulary": shape.vocabulary,
    }


# The supervised training of a base model: cross-entropy on demonstrations of all its tasks together.
#
# Demonstrations mix levels of reasoning: true facts with good actions (share `base.grounded`), wrong facts with random
# actions (share `base.wrong`), and templates. A share `base.usefulness` of the templates has a good action. The
# instances are those of the split `base`, which neither reinforcement learning nor an evaluation uses.

Demonstration = tuple[tuple[int, ...], tuple[int, ...]]  # prompt, response with eos

BETAS = (0.9, 0.99)  # of Adam
WARMUP_STEPS = 50
MAX_GRAD_NORM = 1.0
REPORT_EVERY = 50  # steps


def corpus(source: Corpus, base: BaseConfig, tokenizer: Tokenizer) -> list[Demonstration]:
    """Return `base.pool` demonstrations of a corpus as token ids, always the same for one `base.seed`.

    They mix good and random actions, in the shares of `base` (`plat_envs.stand_in.Mix`). Their instances
    are of the task's split "base".
    """
    rng = random.Random(f"demonstrations/{source.task}/{base.seed}")
    mix = Mix(base.grounded, base.wrong, base.usefulness)
    environment = teacher(make_environment(source.task, source.options, "base", source.rendering), source.task)
    turns = demonstrations(environment, rng, base.pool, mix, base.seed * 10_000_000)
    return [(tuple(tokenizer.prompt(turn.prompt)), (*tokenizer.encode(turn.response), tokenizer.eos)) for turn in turns]


def train_base(base: BaseConfig, shape: Shape, tokenizer: Tokenizer) -> tuple[Tensor, list[float]]:
    """Return the flat parameters after `base.steps` steps of Adam, and the reported losses (nats per token).

    Every step draws an equal share of `base.batch` demonstrations from each corpus; its loss is the mean over all
    response tokens. The loss of every 50th step and of the last is reported: printed, and in the list. Raises
    CheckpointError if the training diverges.
    """
    pools = [corpus(source, base, tokenizer) for source in corpora_of(base.version)]
    flat = initialise(shape, base.seed).requires_grad_()
    optimiser = torch.optim.AdamW([flat], lr=base.lr, betas=BETAS, weight_decay=0.0, fused=True)
    rng = random.Random(base.seed)
    share = max(1, base.batch // len(pools))
    losses: list[float] = []
    for step in range(base.steps):
        optimiser.param_groups[0]["lr"] = learning_rate(base, step)
        chosen = [demonstration for pool in pools for demonstration in rng.choices(pool, k=share)]
        loss = cross_entropy(unpack(shape, flat), chosen, tokenizer.pad)
        flat.grad = None
        torch.autograd.backward(loss)
        assert flat.grad is not None
        norm = float(torch.linalg.vector_norm(flat.grad))
        if norm > MAX_GRAD_NORM:
            flat.grad.mul_(MAX_GRAD_NORM / norm)
        optimiser.step()
        if step % REPORT_EVERY == 0 or step + 1 == base.steps:
            losses.append(round(float(loss.detach()), 4))
            print(f"base model: step {step + 1}/{base.steps}, loss {float(loss.detach()):.3f}", flush=True)
    if not bool(torch.isfinite(flat).all()):
        raise CheckpointError("the base model diverged", where="model.base.lr", fix="lower model.base.lr")
    return flat.detach(), losses


def learning_rate(base: BaseConfig, step: int) -> float:
    """Return the learning rate of a step: warm-up over the first steps, times a linear decay to zero."""
    return base.lr * min(1.0, (step + 1) / WARMUP_STEPS) * (1 - step / base.steps)


def cross_entropy(weights: Weights, chosen: list[Demonstration], pad: int) -> Tensor:
    """Return the mean cross-entropy of all response tokens, in nats."""
    ids, lengths, last = pad_prompts([prompt for prompt, _ in chosen], pad, "cpu")
    longest = max(len(response) for _, response in chosen)
    targets = torch.tensor([response + (-100,) * (longest - len(response)) for _, response in chosen])
    fed = torch.cat((last[:, None], targets[:, :-1].clamp_min(pad)), 1)
    hidden = extend(weights, encode(weights, ids, lengths), torch.arange(len(chosen)), fed)
    return F.cross_entropy(F.linear(hidden, weights.head).flatten(0, 1), targets.flatten(), ignore_index=-100)
