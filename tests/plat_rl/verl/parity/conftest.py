"""What is compared: one model and one batch on both sides, and a process with verl's own training worker.

A batch is a rollout of the embedded trainer, in full context with interleaved masks, or in the context of the present
state with a sequence for each turn; responses differ in length. Each side gets it in its own form: the embedded learner
packs the response tokens of a trajectory, verl has rows with a mask.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from plat_rl.embedded.batch import Batch
from plat_rl.embedded.transformer import hf
from plat_rl.embedded.transformer.tokenizer import WordTokenizer, save_word_tokenizer
from plat_rl.verl.settings.verl_config import VerlRunConfig

WORKER = Path(__file__).parent / "worker.py"
Rows = dict[str, list[torch.Tensor]]


@dataclass(frozen=True)
class Model:
    """A model that is not the one that plays: the tiny base with noise, as a flat vector and as a folder."""

    shape: Any
    flat: torch.Tensor
    folder: Path


@pytest.fixture(scope="session")
def model(policy: Any, tmp_path_factory: pytest.TempPathFactory) -> Model:
    noise = torch.randn(policy.flat.shape, generator=torch.Generator().manual_seed(3))
    flat = policy.flat + 0.3 * noise * policy.flat.std()
    folder = tmp_path_factory.mktemp("parity") / "model"
    folder.mkdir()
    hf.save(folder, policy.shape, flat)
    save_word_tokenizer(folder, WordTokenizer())
    return Model(policy.shape, flat, folder)


@dataclass(frozen=True)
class Layout:
    """The sequences of a batch as verl has them.

    prompts, responses, masks   (S,) of each sequence
    trajectory_of_sequence      (S,)
    """

    prompts: list[torch.Tensor]
    responses: list[torch.Tensor]
    masks: list[torch.Tensor]
    trajectory_of_sequence: np.ndarray

    @property
    def mask(self) -> torch.Tensor:
        """(S, W) the masks as one tensor."""
        return torch.nn.utils.rnn.pad_sequence(self.masks, batch_first=True)

    def rows(self) -> Rows:
        whole = [torch.cat(parts) for parts in zip(self.prompts, self.responses, strict=True)]
        return {
            "input_ids": whole,
            "position_ids": [torch.arange(len(ids)) for ids in whole],
            "prompts": self.prompts,
            "responses": self.responses,
            "response_mask": self.masks,
            "loss_mask": self.masks,
        }

    def cut(self, values: torch.Tensor) -> list[torch.Tensor]:
        """(S, W) values as a list of rows."""
        return [row[: len(mask)] for row, mask in zip(values.detach(), self.masks, strict=True)]

    def spread(self, tokens: torch.Tensor) -> torch.Tensor:
        """(S, W) with these values of response tokens, in the order of trajectories and turns, where they lie."""
        result = torch.zeros(self.mask.shape, dtype=tokens.dtype)
        result[self.mask.bool()] = tokens.detach()
        return result


def layout_of(batch: Batch, context: str) -> Layout:
    """The trajectories of a batch as sequences: each whole, or each turn for itself."""
    layout = Layout([], [], [], np.zeros(0, dtype=np.int64))
    owners = []
    for number in range(batch.trajectories):
        own = np.flatnonzero(batch.trajectory_of_row == number)
        for rows in [own] if context == "full" else own[:, None]:
            first = batch.prompts[batch.prompt_of_row[rows[0]]]
            said: list[int] = []
            mask: list[int] = []
            for row in rows:
                said = list(batch.prompts[batch.prompt_of_row[row]][len(first) :])
                mask += [0] * (len(said) - len(mask)) + [1] * int(batch.response_length[row])
                said += batch.responses[row, : batch.response_length[row]].tolist()
            layout.prompts.append(torch.tensor(first))
            layout.responses.append(torch.tensor(said))
            layout.masks.append(torch.tensor(mask))
            owners.append(number)
    return Layout(layout.prompts, layout.responses, layout.masks, np.array(owners))


@pytest.fixture(scope="session")
def layout() -> Callable[[Batch, str], Layout]:
    return layout_of


@pytest.fixture(scope="session")
def ask_verl(model: Model, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., list[dict[str, Any]]]]:
    """`ask_verl([case, ...])`: the answers of one process with verl's training worker, see worker.py."""
    log = tmp_path_factory.mktemp("worker") / "log.txt"
    with log.open("w") as errors:
        process = subprocess.Popen(
            [sys.executable, str(WORKER)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, text=True
        )
    assert process.stdin is not None and process.stdout is not None

    def ask(cases: list[dict[str, Any]]) -> list[dict[str, Any]]:
        folder = tmp_path_factory.mktemp("cases")
        torch.save([{"model": str(model.folder), **case} for case in cases], folder / "cases.pt")
        print(folder, file=process.stdin, flush=True)
        for line in process.stdout:  # libraries print, too
            if line.strip() == f"answered {folder}":
                answers: list[dict[str, Any]] = torch.load(folder / "answers.pt", weights_only=False)
                return answers
        raise AssertionError(log.read_text()[-3000:])

    yield ask
    process.terminate()
    process.communicate()


@pytest.fixture(scope="session")
def as_json() -> Callable[[VerlRunConfig], str]:
    """A config as verl's workers get it."""
    return lambda config: json.dumps(asdict(config))
