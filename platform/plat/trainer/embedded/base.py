"""The base model of a stand-in: supervised training on demonstrations of all tasks together, made once per recipe.

Demonstrations mix grounded reasoning with good actions (share `base.grounded`) and template reasoning with random ones,
so that reinforcement learning has something to find. The result is a folder in Hugging Face format.
"""

from __future__ import annotations

import hashlib
import json
import os
import random
import shutil
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from filelock import FileLock
from torch import Tensor

from plat.errors import CheckpointError, SpecError
from plat.trainer.config import ModelConfig, RunConfig
from plat.trainer.embedded import hf
from plat.trainer.embedded.batch import pad_prompts
from plat.trainer.embedded.model import Shape, Weights, encode, extend, initialise, unpack
from plat.trainer.embedded.recipe import TASKS, base_folder, recipe
from plat.trainer.embedded.tokenizer import Tokenizer, WordTokenizer, save_word_tokenizer, tokenizer_of
from plat_envs.api import make_environment
from plat_envs.demonstrations import demonstrations

Demonstration = tuple[tuple[int, ...], tuple[int, ...]]  # prompt, response with eos


def load_base(config: RunConfig, cache: Path) -> tuple[Shape, Tensor, Tokenizer]:
    """Shape, flat parameters and tokenizer of the model a run starts from; a stand-in's base is built if missing."""
    dtype = getattr(torch, config.dtype)
    if config.model.path is not None:
        folder = Path(config.model.path)
        shape, flat = hf.load(folder, dtype, config.device)
        tokenizer = tokenizer_of(folder)
        if isinstance(tokenizer, WordTokenizer) and config.train.rendering == "chat":
            raise SpecError(
                "a stand-in model knows only the compact rendering",
                where="train.rendering",
                mend="use train.rendering=compact",
            )
        return shape, flat, tokenizer
    folder = build(config.model, cache)
    shape, flat = hf.load(folder, dtype, config.device)
    return shape, flat, WordTokenizer()


def empty_model(config: RunConfig) -> tuple[Shape, Tokenizer]:
    """Shape and tokenizer alone, for weights that come from a run's checkpoint: no base model is needed."""
    if config.model.path is not None:
        folder = Path(config.model.path)
        return hf.load(folder)[0], tokenizer_of(folder)
    tokenizer = WordTokenizer()
    return hf.shape_of(config.model.shape, tokenizer.vocabulary), tokenizer


def build(model: ModelConfig, cache: Path) -> Path:
    """The folder of this recipe's base model, made if missing or damaged. One process builds, others wait."""
    folder = base_folder(cache, model)
    folder.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(folder.with_suffix(".lock")):
        if _intact(folder):
            return folder
        for left in (folder, *folder.parent.glob(f".{folder.name}-*")):  # damaged, or of a build that was killed
            shutil.rmtree(left, ignore_errors=True)
        scratch = folder.with_name(f".{folder.name}-{os.getpid()}")
        scratch.mkdir()
        tokenizer = WordTokenizer()
        shape = hf.shape_of(model.shape, tokenizer.vocabulary)
        threads = torch.get_num_threads()
        torch.set_num_threads(1)  # their number changes the last bits, and is no part of the recipe
        try:
            flat, losses = train_base(model, shape, tokenizer)
        finally:
            torch.set_num_threads(threads)
        hf.save(scratch, shape, flat)
        save_word_tokenizer(scratch)
        about = {"recipe": recipe(model), "sha256": _hashes(scratch), "parameters": shape.parameters, "loss": losses}
        (scratch / "recipe.json").write_text(json.dumps(about, indent=2))
        for file in scratch.iterdir():
            with file.open("rb") as stream:
                os.fsync(stream.fileno())
        scratch.rename(folder)
    return folder


def _intact(folder: Path) -> bool:
    try:
        return json.loads((folder / "recipe.json").read_text())["sha256"] == _hashes(folder)
    except (OSError, ValueError, KeyError, TypeError):
        return False


def _hashes(folder: Path) -> dict[str, str]:
    names = sorted(file.name for file in folder.iterdir() if file.name != "recipe.json")
    return {name: hashlib.sha256((folder / name).read_bytes()).hexdigest() for name in names}


def corpus(task: str, count: int, grounded: float, seed: int, tokenizer: Tokenizer) -> list[Demonstration]:
    """`count` demonstrated turns of a task's training instances, as token ids."""
    rng = random.Random(f"demonstrations/{task}/{seed}")
    shown = demonstrations(make_environment(task), rng, count, grounded, first_seed=seed * 10_000_000)
    return [(tuple(tokenizer.prompt(each.prompt)), (*tokenizer.encode(each.response), tokenizer.eos)) for each in shown]


def train_base(model: ModelConfig, shape: Shape, tokenizer: Tokenizer) -> tuple[Tensor, list[float]]:
    """Adam with warm-up and linear decay on the token mean of the responses' cross-entropy, all tasks in every step."""
    settings = model.base
    pools = {task: corpus(task, settings.pool, settings.grounded, settings.seed, tokenizer) for task in TASKS}
    flat = initialise(shape, settings.seed).requires_grad_()
    optimiser = torch.optim.AdamW([flat], lr=settings.lr, betas=(0.9, 0.99), weight_decay=0.0, fused=True)
    rng = random.Random(settings.seed)
    share = max(1, settings.batch // len(TASKS))
    losses = []
    for step in range(settings.steps):
        weights = unpack(shape, flat)
        total, count, parts = 0.0, 0, []
        for task in TASKS:
            loss, tokens = _cross_entropy(weights, rng.choices(pools[task], k=share), tokenizer.pad)
            parts.append(loss)
            count += tokens
        loss = torch.stack(parts).sum() / count
        loss.backward()
        assert flat.grad is not None
        norm = float(torch.linalg.vector_norm(flat.grad))
        if norm > 1.0:
            flat.grad.mul_(1.0 / norm)
        warm = min(1.0, (step + 1) / 50)
        optimiser.param_groups[0]["lr"] = settings.lr * warm * (1 - step / settings.steps)
        optimiser.step()
        flat.grad = None
        total = float(loss.detach())
        if step % 50 == 0 or step + 1 == settings.steps:
            losses.append(round(total, 4))
            print(f"base model: step {step + 1}/{settings.steps}, loss {total:.3f}", flush=True)
    if not bool(torch.isfinite(flat).all()):
        raise CheckpointError("the base model diverged", where="model.base.lr", mend="lower model.base.lr")
    return flat.detach(), losses


def _cross_entropy(weights: Weights, chosen: list[Demonstration], pad: int) -> tuple[Tensor, int]:
    """Summed cross-entropy of the responses, and their number of tokens."""
    ids, lengths, last = pad_prompts([prompt for prompt, _ in chosen], pad, "cpu")
    longest = max(len(response) for _, response in chosen)
    targets = torch.tensor([response + (-100,) * (longest - len(response)) for _, response in chosen])
    fed = torch.cat((last[:, None], targets[:, :-1].clamp_min(pad)), 1)
    hidden = extend(weights, encode(weights, ids, lengths), torch.arange(len(chosen)), fed)
    scores = F.linear(hidden, weights.head)
    loss = F.cross_entropy(scores.flatten(0, 1), targets.flatten(), ignore_index=-100, reduction="sum")
    return loss, int((targets != -100).sum())


def describe(config: RunConfig, shape: Shape) -> dict[str, Any]:
    """What really ran, for result.json and the report."""
    stand_in = config.model.path is None
    return {
        "model_really": f"stand-in for {config.model.paper_name}" if stand_in else str(config.model.path),
        "stand_in": stand_in,
        "parameters": shape.parameters,
        "vocabulary": shape.vocabulary,
    }
