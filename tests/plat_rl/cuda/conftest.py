"""What the tests of the device share: small models with a little skill, made here, and runs that start from them.

No file of the package is needed beside its code: the base models that it ships may be absent.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch
from pretended_device import PretendedDevice

from plat_rl.embedded.base_model.load import train_base
from plat_rl.embedded.transformer import hf
from plat_rl.embedded.transformer.model import Shape
from plat_rl.embedded.transformer.tokenizer import WordTokenizer, save_word_tokenizer
from plat_rl.run_config import BaseConfig, RunConfig

WORDS = WordTokenizer().vocabulary
# The ratios of the stand-ins: Qwen2.5's have as many key heads as heads, Llama's half as many. Real Llama checkpoints
# of 7 billion parameters and more have a matrix of their own for the output.
SHAPES = {
    "qwen2.5-like": Shape(WORDS, 2, 32, 2, 2, 48),
    "llama-like": Shape(WORDS, 2, 48, 4, 2, 64, tie_embeddings=False),
}
# A second of training, so that some responses close their think section and some actions are valid.
SKILL = BaseConfig(steps=120, batch=32, pool=64, lr=1e-2)


@pytest.fixture(scope="session")
def device() -> Iterator[str]:
    """`cuda` if there is a GPU; otherwise the tests skip.

    The variable PLAT_CUDA_TESTS rehearses them without one: `cpu` on the CPU, `pretended` on a device that is not there
    (the tests that start processes then skip).
    """
    rehearsal = os.environ.get("PLAT_CUDA_TESTS")
    if rehearsal == "cpu":
        yield "cpu"
    elif rehearsal == "pretended":
        with PretendedDevice():
            yield "cuda"
    elif torch.cuda.is_available():
        yield "cuda"
    else:
        missing = "sees no card (try nvidia-smi)" if torch.backends.cuda.is_built() else "is built without CUDA"
        pytest.skip(f"torch {torch.__version__} {missing}; PLAT_CUDA_TESTS=cpu rehearses these tests on the CPU")


@pytest.fixture(scope="session")
def device_of_processes(device: str) -> str:
    """The device, if the processes that a test starts see it, too."""
    if device == "cuda" and not torch.cuda.is_available():
        pytest.skip("a device that is not there is in this process alone")
    return device


@pytest.fixture(scope="session")
def checkpoints(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A local checkpoint of each shape, by its name."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    folders = {}
    for name, shape in SHAPES.items():
        folders[name] = folder = tmp_path_factory.mktemp(name)
        hf.save(folder, shape, train_base(SKILL, shape, WordTokenizer())[0])
        save_word_tokenizer(folder, WordTokenizer())
    torch.set_num_threads(threads)
    return folders


@pytest.fixture(scope="session")
def configure(checkpoints: dict[str, Path], compose: Callable[..., RunConfig]) -> Callable[..., RunConfig]:
    """`configure("llama-like", "algorithm=ppo", ...)`: the config of a tiny run that starts from that checkpoint."""

    def make(name: str, *overrides: str) -> RunConfig:
        return compose(f"model.path={checkpoints[name]}", "task=frozenlake", *overrides)

    return make
