"""What the trainer's tests share: tiny configs composed as users compose them, a tiny base model, a RunIO in memory."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from plat.spec.expansion.experiment import build_run, config_object
from plat.trainer.api import State, WriteFiles
from plat_rl.embedded.base_model.base_record import base_key, built_bases
from plat_rl.embedded.batch import Batch
from plat_rl.embedded.rollout import Episodes, Sampling, rollout
from plat_rl.embedded.spec import EmbeddedTrainer
from plat_rl.embedded.transformer import hf
from plat_rl.embedded.transformer.model import Shape, Weights, initialise, unpack
from plat_rl.embedded.transformer.tokenizer import WordTokenizer
from plat_rl.environments import make_environments
from plat_rl.loop.randomness import Key
from plat_rl.run_config import RunConfig

torch.set_num_threads(1)

TINY = (
    "scale=smoke",
    "model.shape.width=32",
    "model.shape.ffn=48",
    "model.base.steps=300",
    "model.base.pool=300",
    "model.base.batch=32",
)


def compose_tiny(*overrides: str) -> RunConfig:
    return config_object(build_run([*TINY, *overrides]), EmbeddedTrainer())


class MemoryIO:
    """A RunIO that keeps everything, with checkpoints as bytes would keep them; may ask to stop at given steps."""

    def __init__(self, cache: Path, stop_at: frozenset[int] = frozenset()) -> None:
        self.cache = cache
        self.stop_at = stop_at
        self.metrics: dict[tuple[str, int], float] = {}
        self.tables: dict[tuple[str, int], Any] = {}
        self.checkpoints: dict[int, tuple[State, bool]] = {}
        self.recorded: dict[str, Any] = {}
        self.step = -1

    def _advance(self, step: int) -> None:
        assert step >= self.step, f"step {step} after {self.step}"
        self.step = step

    def facts(self, facts: Mapping[str, Any]) -> None:
        self.recorded |= facts

    def log(self, step: int, metrics: Mapping[str, float]) -> None:
        self._advance(step)
        for key, value in metrics.items():
            assert isinstance(value, float), (key, value)
            self.metrics.setdefault((key, step), value)

    def table(self, name: str, step: int, data: Any) -> None:
        self._advance(step)
        self.tables.setdefault((name, step), json.loads(json.dumps(data)))

    def save(self, step: int, state: State, *, peak: bool = False, write_files: WriteFiles | None = None) -> None:
        assert write_files is None, "this trainer's state is small"
        self._advance(step)
        was = step in self.checkpoints and self.checkpoints[step][1]
        tensors = {name: tensor.clone() for name, tensor in state.tensors.items()}
        self.checkpoints[step] = State(tensors, json.loads(json.dumps(state.meta))), peak or was

    def restore(self) -> tuple[int, State] | None:
        return self._newest(self.checkpoints)

    def load_peak(self) -> tuple[int, State] | None:
        return self._newest([step for step, (_, peak) in self.checkpoints.items() if peak])

    def _newest(self, steps: Any) -> tuple[int, State] | None:
        return (max(steps), copy.deepcopy(self.checkpoints[max(steps)][0])) if steps else None

    def should_stop(self) -> bool:
        return self.step in self.stop_at

    def resumed(self, stop_at: frozenset[int] = frozenset()) -> MemoryIO:
        """The next attempt: the checkpoints and what they cover, nothing else."""
        after = MemoryIO(self.cache, stop_at)
        after.checkpoints = copy.deepcopy(self.checkpoints)
        covered = max(self.checkpoints, default=-1)
        after.metrics = {key: value for key, value in self.metrics.items() if key[1] <= covered}
        after.tables = {key: value for key, value in self.tables.items() if key[1] <= covered}
        return after

    def history(self) -> dict[tuple[str, int], str]:
        """Every metric but timings, by its exact value (NaN equals NaN)."""
        return {key: value.hex() for key, value in self.metrics.items() if not key[0].startswith(("time/", "mem/"))}

    def final(self) -> dict[str, bytes]:
        state = self.checkpoints[max(self.checkpoints)][0]
        return {name: tensor.reshape(-1).view(torch.uint8).numpy().tobytes() for name, tensor in state.tensors.items()}


@pytest.fixture(scope="session")
def compose() -> Callable[..., RunConfig]:
    """`compose("task=sokoban", ...)`: a tiny run's config."""
    return compose_tiny


@pytest.fixture(scope="session")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A cache with the tiny base model in it."""
    from plat_rl.embedded.base_model.load import build

    folder = tmp_path_factory.mktemp("cache")
    build(compose_tiny().model, folder / "bases")
    return folder


@pytest.fixture(scope="session")
def memory_io(cache: Path) -> Callable[..., MemoryIO]:
    return lambda *stop_at: MemoryIO(cache, frozenset(stop_at))


@pytest.fixture(scope="session")
def io_in() -> Callable[..., MemoryIO]:
    """`io_in(folder, 2)`: a RunIO in memory, with an empty cache at that folder, that asks to stop after step 2."""
    return lambda folder, *stop_at: MemoryIO(folder, frozenset(stop_at))


@pytest.fixture(scope="session")
def reference() -> Callable[[Shape, torch.Tensor], Any]:
    """transformers' Qwen2ForCausalLM with these parameters."""

    def make(shape: Shape, flat: torch.Tensor, folder: Path) -> Any:
        from transformers import Qwen2ForCausalLM

        folder.mkdir(parents=True, exist_ok=True)
        hf.save(folder, shape, flat.detach())
        return Qwen2ForCausalLM.from_pretrained(folder, attn_implementation="eager", dtype=flat.dtype).eval()

    return make


def lively(shape: Shape, seed: int = 0) -> torch.Tensor:
    """Parameters in which no part is at its neutral value: norms off 1, biases off 0."""
    generator = torch.Generator().manual_seed(seed)
    flat = initialise(shape, seed)
    return flat + 0.1 * torch.randn(flat.shape, generator=generator)


@pytest.fixture(scope="session")
def lively_parameters() -> Callable[..., torch.Tensor]:
    return lively


@dataclass(frozen=True)
class Policy:
    """The tiny base model as the trainer holds it, and as transformers does."""

    shape: Shape
    flat: torch.Tensor
    weights: Weights
    tokenizer: WordTokenizer
    folder: Path
    reference: Any


@pytest.fixture(scope="session")
def policy(cache: Path) -> Policy:
    from transformers import Qwen2ForCausalLM

    folder = built_bases(cache) / base_key(compose_tiny().model)
    shape, flat = hf.load(folder)
    model = Qwen2ForCausalLM.from_pretrained(folder, attn_implementation="eager").eval()
    return Policy(shape, flat, unpack(shape, flat), WordTokenizer(), folder, model)


@pytest.fixture(scope="session")
def play(policy: Policy) -> Callable[..., Batch]:
    """`play(config, groups=2, size=3, key=("training", 1))`: a rollout of the tiny base model."""

    def run(
        config: RunConfig,
        groups: int = 2,
        size: int = 3,
        key: Key = ("training", 1),
        seeds: Sequence[int] | None = None,
        **changes: Any,
    ) -> Batch:
        count = groups * size
        sampling = Sampling(
            config.task.turns, config.task.response_tokens, config.train.temperature, config.train.context
        )
        episodes = Episodes(
            make_environments(config, "train", count),
            seeds or [7 + number // size for number in range(count)],
            [number % size for number in range(count)],
            np.arange(count) // size,
        )
        return rollout(policy.weights, policy.tokenizer, episodes, replace(sampling, **changes), key)

    return run


@pytest.fixture(scope="session")
def real(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A byte-level tokenizer with Qwen's chat markers, as of a real checkpoint: tags are several tokens each."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

    inner = Tokenizer(models.BPE())
    inner.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    inner.decoder = decoders.ByteLevel()
    special = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
    trainer = trainers.BpeTrainer(
        vocab_size=300, special_tokens=special, initial_alphabet=pre_tokenizers.ByteLevel.alphabet()
    )
    inner.train_from_iterator(["go up and then right </think> <answer> up </answer>"] * 3, trainer)
    folder: Path = tmp_path_factory.mktemp("real")
    inner.save(str(folder / "tokenizer.json"))
    template = (
        "{% for m in messages %}<|im_start|>{{ m['role'] }}\n{{ m['content'] }}<|im_end|>\n{% endfor %}"
        "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
    )
    (folder / "tokenizer_config.json").write_text(
        json.dumps(
            {
                "tokenizer_class": "PreTrainedTokenizerFast",
                "eos_token": "<|im_end|>",
                "pad_token": "<|endoftext|>",
                "chat_template": template,
            }
        )
    )
    return folder
