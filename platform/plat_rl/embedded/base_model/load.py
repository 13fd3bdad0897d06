"""The model a run starts from: a shipped base, one built on this machine, or a local checkpoint."""

from __future__ import annotations

import json
import os
import platform
import shutil
from pathlib import Path
from typing import Any, NamedTuple

import torch
from filelock import FileLock
from torch import Tensor

from plat.errors import CheckpointError, SpecError
from plat_rl.embedded.base_model.base_record import (
    NUMERICS,
    RECORD,
    BaseRecord,
    read_base,
    record_of,
    shipped_base,
)
from plat_rl.embedded.base_model.recipe import base_key, built_bases, checkpoint_hash, recipe, recipe_hash
from plat_rl.embedded.base_model.supervised import train_base
from plat_rl.embedded.transformer import hf
from plat_rl.embedded.transformer.model import Shape
from plat_rl.embedded.transformer.tokenizer import Tokenizer, WordTokenizer, save_word_tokenizer, tokenizer_of
from plat_rl.run_config import ModelConfig, RunConfig


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
        return Base(*hf.load(record.folder, dtype, config.device), WordTokenizer(), record.sha256)
    folder = Path(config.model.path)
    shape, flat = hf.load(folder, dtype, config.device)
    tokenizer = tokenizer_of(folder)
    if isinstance(tokenizer, WordTokenizer) and config.train.rendering == "chat":
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
    tokenizer = WordTokenizer()
    return hf.shape_of(config.model.shape, tokenizer.vocabulary), tokenizer


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
    tokenizer = WordTokenizer()
    shape = hf.shape_of(model.shape, tokenizer.vocabulary)
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # their number changes the last bits, and is not in the recipe
    try:
        flat, losses = train_base(model.base, shape, tokenizer)
    finally:
        torch.set_num_threads(threads)
    hf.save(folder, shape, flat)
    save_word_tokenizer(folder)
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
