"""What is replaced in verl for models that see pictures, each against what it has to compute."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from tensordict import TensorDict
from tiny_vision import END, PAD, START, load_model, make_checkpoint, picture

from plat_rl.embedded.transformer.tokenizer import WordTokenizer, save_word_tokenizer
from plat_rl.verl.cpu import ENVIRONMENT
from plat_rl.verl.cpu.repairs import load_critic
from plat_rl.verl.cpu.vision_repairs import _Unpacked, right_positions
from plat_rl.verl.vision.processor import load_processor

pytestmark = pytest.mark.filterwarnings("ignore")  # the imports of transformers and verl give FutureWarnings


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_checkpoint(tmp_path_factory.mktemp("tiny"), tie=False)


IN_A_PROCESS_OF_VERL = """
import sys
import verl
from verl.models.transformers import qwen2_vl
from verl.utils import tensordict_utils
from verl.workers import engine_workers
from verl.workers.config import model
from verl.workers.engine import base
from plat_rl.verl.cpu import vision_repairs
for module in (tensordict_utils, engine_workers, base):
    assert module.maybe_fix_3d_position_ids is vision_repairs.right_positions, module
seeing, reading = sys.argv[1:]
assert type(model.hf_processor(seeing)).__name__ == "VisionProcessor"
assert model.hf_processor(reading) is None
assert qwen2_vl._get_input_embeds.__module__ == vision_repairs.__name__
print("repaired")
"""


def test_every_process_of_verl_has_the_replacements_where_it_looks_for_them(folder: Path, tmp_path: Path) -> None:
    text = {"model_type": "qwen2", "architectures": ["Qwen2ForCausalLM"], "vocab_size": 190}
    (tmp_path / "config.json").write_text(json.dumps(text))
    save_word_tokenizer(tmp_path, WordTokenizer())
    command = [sys.executable, "-W", "ignore", "-c", IN_A_PROCESS_OF_VERL, str(folder), str(tmp_path)]
    done = subprocess.run(command, env=os.environ | ENVIRONMENT, capture_output=True, text=True, timeout=300)
    assert done.stdout.strip().endswith("repaired"), done.stderr[-3000:]


@pytest.mark.parametrize("lengths", [(5, 5, 5), (5, 7, 6), (5,)])
def test_positions_of_rows_of_any_length_come_back(lengths: tuple[int, ...]) -> None:
    """TransferQueue packs rows like this."""
    from verl.utils.tensordict_utils import index_select_tensor_dict

    rows = [torch.randint(0, 99, (4, length)) for length in lengths]
    ids = [torch.arange(length) for length in lengths]
    packed = {
        "position_ids": torch.nested.as_nested_tensor(rows, layout=torch.jagged),
        "input_ids": torch.nested.as_nested_tensor(ids, layout=torch.jagged),
    }
    data = TensorDict(packed, batch_size=[len(lengths)])
    for _ in range(2):  # verl calls it again for each micro-batch
        right_positions(data)
        padded = torch.nested.to_padded_tensor(data["position_ids"], 0, output_size=(len(rows), 4, max(lengths)))
        for row, length, own in zip(rows, lengths, padded, strict=True):
            assert torch.equal(own[:, :length], row)
        data = index_select_tensor_dict(data, list(range(len(lengths))))


def test_rows_without_pictures_pass_through_the_vision_part(folder: Path) -> None:
    from verl.models.transformers import qwen2_vl

    model, ids = load_model(folder).model, torch.tensor([[5, 6, 7]])
    embeddings, _ = qwen2_vl._get_input_embeds(_Unpacked(model), ids)
    assert torch.equal(embeddings, model.get_input_embeddings()(ids))
    embeddings.sum().backward()
    assert all(parameter.grad is not None for parameter in model.visual.parameters())


def test_the_critic_is_the_policys_model_with_a_head_that_gives_zeros(folder: Path) -> None:
    from transformers import AutoConfig

    config: Any = AutoConfig.from_pretrained(folder, attn_implementation="sdpa")
    critic = load_critic(str(folder), torch.float32, config, False).eval()
    policy, processor = load_model(folder), load_processor(str(folder))
    assert processor is not None
    images = [picture(0)]
    ids = torch.tensor([processor.expand([5, START, PAD, END, 7], images)])
    pixels, grids = processor.features(images)
    inputs = {
        "attention_mask": torch.ones_like(ids), "position_ids": processor.positions(ids, grids),
        "pixel_values": pixels, "image_grid_thw": grids,
    }  # fmt: skip
    values = critic(input_ids=ids, **inputs).logits
    assert values.shape == (1, ids.shape[1], 1) and not values.any()
    theirs = policy.model(input_ids=ids, **inputs).last_hidden_state
    with torch.no_grad():
        critic.score.weight.normal_()
    again = critic(input_ids=ids, **inputs).logits
    assert torch.allclose(again, theirs @ critic.score.weight.T, atol=1e-5) and again.abs().max() > 0.1
