"""The model a run starts from: a shipped base, one built on this machine, or a local checkpoint."""

from __future__ import annotations

import json
import os
import platform
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import torch
from filelock import FileLock
from torch import Tensor

from plat.errors import CheckpointError, SpecError
from plat.trainer.config import ModelConfig, RunConfig
from plat.trainer.embedded.base_model.recipe import base_key, built_bases, checkpoint_hash, recipe, recipe_hash
from plat.trainer.embedded.base_model.record import RECORD, BaseRecord, read_base, record_of, shipped_base
from plat.trainer.embedded.base_model.supervised import train_base
from plat.trainer.embedded.transformer import hf
from plat.trainer.embedded.transformer.model import Shape
from plat.trainer.embedded.transformer.tokenizer import Tokenizer, WordTokenizer, save_word_tokenizer, tokenizer_of

# Variables that choose how the CPU computes, and so the last bits of a base.
NUMERICS = ("ATEN_CPU_CAPABILITY", "MKL_CBWR")


class Base(NamedTuple):
    """What a run starts from; `sha256` is the content hash of the folder that `parameters` were read from."""

    shape: Shape
    parameters: Tensor
    tokenizer: Tokenizer
    sha256: str


def load_base(config: RunConfig, cache: Path) -> Base:
    """The model a run starts from; a stand-in's base that is neither shipped nor in the cache is built first.

    SpecError: there is no checkpoint at `model.path`, or it cannot be used with the rendering. CheckpointError: a
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
            mend="use train.rendering=compact",
        )
    return Base(shape, flat, tokenizer, checkpoint_hash(folder))


def empty_model(config: RunConfig) -> tuple[Shape, Tokenizer]:
    """Shape and tokenizer alone, for weights that come from a run's checkpoint: no base model is needed."""
    if config.model.path is not None:
        folder = Path(config.model.path)
        return hf.load(folder)[0], tokenizer_of(folder)
    tokenizer = WordTokenizer()
    return hf.shape_of(config.model.shape, tokenizer.vocabulary), tokenizer


def obtain(model: ModelConfig, cache: Path) -> BaseRecord:
    """The base of this recipe: the shipped one, else the one in the cache, built there if it is missing or damaged."""
    return shipped_base(model) or build(model, built_bases(cache))


def build(model: ModelConfig, bases: Path) -> BaseRecord:
    """The base of this recipe in a folder of bases, made there unless it is whole. One process builds, others wait."""
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
    """Train the base and write its files and its record, all durable."""
    tokenizer = WordTokenizer()
    shape = hf.shape_of(model.shape, tokenizer.vocabulary)
    with _one_thread():
        flat, losses = train_base(model.base, shape, tokenizer)
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


@contextmanager
def _one_thread() -> Iterator[None]:
    """Compute with one thread: their number changes the last bits, and is no part of the recipe."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


def _surroundings() -> dict[str, str]:
    """What may change the last bits of a base of the same recipe."""
    from plat import __version__

    return {
        "plat": __version__,
        "torch": str(torch.__version__),
        "python": platform.python_version(),
        "cpu": f"{platform.machine()} {torch.backends.cpu.get_cpu_capability()}",
        **{name: os.environ[name] for name in NUMERICS if name in os.environ},
    }


def describe(config: RunConfig, shape: Shape) -> dict[str, Any]:
    """What really ran, for result.json and the report."""
    stand_in = config.model.path is None
    return {
        "model_really": f"stand-in for {config.model.paper_name}" if stand_in else str(config.model.path),
        "stand_in": stand_in,
        "parameters": shape.parameters,
        "vocabulary": shape.vocabulary,
    }
