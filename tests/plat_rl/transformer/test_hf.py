"""Checkpoints and tokenizers go to `transformers` and come back; what we cannot run is refused with a reason."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
import torch

from plat.errors import CheckpointError, SpecError
from plat_envs.api import LEVELS, make_environment
from plat_envs.stand_in import WORDS
from plat_rl.embedded.base_model.base_record import base_key, built_bases, checkpoint_hash
from plat_rl.embedded.base_model.load import load_base
from plat_rl.embedded.transformer import hf
from plat_rl.embedded.transformer.model import Shape, extend, unpack
from plat_rl.embedded.transformer.tokenizer import PretrainedTokenizer, WordTokenizer, tokenizer_of

SHAPES = [Shape(40, 2, 32, 4, 2, 48), Shape(40, 1, 24, 2, 2, 40, rope_theta=5e5, eps=1e-5, tie_embeddings=False)]
TASKS = ("sokoban", "frozenlake", "metamathqa", "countdown")


@pytest.fixture(params=SHAPES, ids=["tied", "untied"])
def saved(request, tmp_path, lively_parameters):
    shape = request.param
    flat = lively_parameters(shape)
    hf.save(tmp_path, shape, flat)
    return shape, flat, tmp_path


def test_our_checkpoint_comes_back_bit_for_bit(saved):
    shape, flat, folder = saved
    actual, parameters = hf.load(folder)
    assert actual == shape and torch.equal(parameters, flat)


def test_transformers_reads_ours_and_we_read_theirs(saved, tmp_path):
    from transformers import Qwen2ForCausalLM

    shape, flat, folder = saved
    model = Qwen2ForCausalLM.from_pretrained(folder)
    theirs = tmp_path / "theirs"
    model.save_pretrained(theirs, max_shard_size="20KB")
    assert len(list(theirs.glob("*.safetensors"))) > 1
    actual, parameters = hf.load(theirs)
    assert actual == shape and torch.equal(parameters, flat)


def test_a_model_made_by_transformers_computes_the_same_here(tmp_path):
    from transformers import Qwen2Config, Qwen2ForCausalLM

    torch.manual_seed(0)
    config = Qwen2Config(
        vocab_size=40,
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        intermediate_size=48,
        rope_parameters={"rope_type": "default", "rope_theta": 1e6},
    )
    model = Qwen2ForCausalLM(config).eval()
    model.save_pretrained(tmp_path)
    shape, flat = hf.load(tmp_path)
    ids = torch.arange(20)[None] % 40
    weights = unpack(shape, flat)
    with torch.no_grad():
        actual = extend(weights, None, None, ids) @ weights.head.T
        torch.testing.assert_close(actual, model(ids).logits, atol=1e-5, rtol=0)


# --- refusals ---------------------------------------------------------------------------------------------------------


def edit(folder: Path, **changes: object) -> None:
    path = folder / "config.json"
    config = json.loads(path.read_text()) | changes
    path.write_text(json.dumps({key: value for key, value in config.items() if value != "gone"}))


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"model_type": "llama"}, "'llama'"),
        ({"hidden_size": "gone"}, "hidden_size"),
        ({"rope_scaling": {"type": "yarn", "factor": 4.0}}, "rotary"),
        ({"use_sliding_window": True}, "window"),
        ({"hidden_act": "gelu"}, "gelu"),
        ({"head_dim": 64}, "heads"),
        ({"vocab_size": 41}, "embed_tokens"),
        ({"num_hidden_layers": 3}, "model.layers.2"),
    ],
)
def test_what_we_do_not_compute_is_refused(tmp_path, lively_parameters, changes, says):
    hf.save(tmp_path, SHAPES[0], lively_parameters(SHAPES[0]))
    edit(tmp_path, **changes)
    with pytest.raises(CheckpointError, match=says):
        hf.load(tmp_path)


@pytest.mark.parametrize("damage", ["no config", "half a config", "half the tensors", "no tensors"])
def test_damaged_files_are_refused(tmp_path, lively_parameters, damage):
    hf.save(tmp_path, SHAPES[0], lively_parameters(SHAPES[0]))
    config, tensors = tmp_path / "config.json", tmp_path / "model.safetensors"
    if damage == "no config":
        config.unlink()
    elif damage == "half a config":
        config.write_text(config.read_text()[:50])
    elif damage == "half the tensors":
        tensors.write_bytes(tensors.read_bytes()[:1000])
    else:
        tensors.unlink()
    with pytest.raises(CheckpointError):
        hf.load(tmp_path)


def test_a_path_without_checkpoint_is_refused_when_the_run_is_planned(tmp_path, compose):
    with pytest.raises(SpecError, match="no Qwen2 checkpoint"):
        compose(f"model.path={tmp_path / 'nowhere'}")
    with pytest.raises(SpecError):
        checkpoint_hash(tmp_path)


def test_the_hash_of_a_checkpoint_sees_every_byte(tmp_path, lively_parameters):
    flat = lively_parameters(SHAPES[0])
    hf.save(tmp_path, SHAPES[0], flat)
    before = checkpoint_hash(tmp_path)
    moved = tmp_path / "moved"
    moved.mkdir()
    for name in ("config.json", "model.safetensors"):
        shutil.copy(tmp_path / name, moved / name)
    assert checkpoint_hash(moved) == before
    flat[0] += 1e-7
    hf.save(tmp_path, SHAPES[0], flat)
    assert checkpoint_hash(tmp_path) != before


# --- tokenizers -------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def base(compose, cache):
    return built_bases(cache) / base_key(compose().model)


def texts() -> list[str]:
    """Prompts and demonstrations of every task, and every word."""
    import random

    rng = random.Random(0)
    actual = [" ".join(WORDS)]
    for task in TASKS:
        environment = make_environment(task)
        for seed in range(5):
            actual += [environment.reset(seed), environment.demonstrate(rng, LEVELS[seed % 4])]
    return actual


def test_auto_tokenizer_gives_the_ids_of_the_word_tokenizer(base):
    from transformers import AutoTokenizer

    theirs, ours = AutoTokenizer.from_pretrained(base), WordTokenizer()
    for text in texts():
        assert theirs.encode(text, add_special_tokens=False) == ours.encode(text)
        assert ours.decode(ours.encode(text)) == text
        assert theirs.decode(ours.encode(text)) == text
    assert (theirs.pad_token_id, theirs.eos_token_id, len(theirs)) == (ours.pad, ours.eos, ours.vocabulary)
    messages = [{"role": "user", "content": texts()[1]}]
    assert theirs.apply_chat_template(messages, tokenize=False).rstrip() == texts()[1]


def test_a_stand_in_is_recognised_by_its_words_also_when_saved_again(base, tmp_path):
    from transformers import AutoTokenizer

    AutoTokenizer.from_pretrained(base).save_pretrained(tmp_path)
    assert isinstance(tokenizer_of(base), WordTokenizer)
    assert isinstance(tokenizer_of(tmp_path), WordTokenizer)


def test_a_stand_in_by_path_is_the_same_model(base, compose, cache):
    by_name, by_path = compose(), compose(f"model.path={base}")
    for single, other in zip(load_base(by_name, cache)[:2], load_base(by_path, cache)[:2], strict=True):
        assert torch.equal(single, other) if isinstance(single, torch.Tensor) else single == other
    with pytest.raises(SpecError, match="compact"):
        load_base(compose(f"model.path={base}", "train.rendering=chat"), cache)


def test_where_the_reasoning_ends():
    tokenizer = WordTokenizer()
    assert tokenizer.reasoning_tokens(tokenizer.encode("move up </think> <answer> up </answer>")) == 2
    assert tokenizer.reasoning_tokens(tokenizer.encode("</think> <answer> up </answer>")) == 0
    assert tokenizer.reasoning_tokens(tokenizer.encode("move up <answer> up </answer>")) == -1


def test_prompts_of_a_real_checkpoint(real):
    tokenizer = tokenizer_of(real)
    assert isinstance(tokenizer, PretrainedTokenizer)
    plain = tokenizer._inner.decode
    start = "<|im_start|>system\nrules<|im_end|>\n<|im_start|>user\nstate 1<|im_end|>\n<|im_start|>assistant\n<think>"
    assert plain(tokenizer.prompt("state 1", "rules")) == start
    response = [*tokenizer.encode("go up </think> <answer> up </answer>"), tokenizer.eos]
    whole = [*tokenizer.prompt("state 1", "rules"), *response, *tokenizer.following("state 2")]
    end = "<|im_end|>\n<|im_start|>user\nstate 2<|im_end|>\n<|im_start|>assistant\n<think>"
    assert plain(whole) == start + "go up </think> <answer> up </answer>" + end
    assert tokenizer.decode(response) == "go up </think> <answer> up </answer>"


@pytest.mark.parametrize("thought", ["", "go up", "a < b and then right", "é √ 東"])
def test_the_reasoning_of_a_real_checkpoint_ends_before_the_tag(real, thought):
    tokenizer = PretrainedTokenizer(real)
    ids = tokenizer.encode(thought + "</think> <answer> up </answer>")
    end = tokenizer.reasoning_tokens(ids)
    assert tokenizer.decode(ids[:end]) == thought
    assert tokenizer.reasoning_tokens(tokenizer.encode(thought + " <answer> up </answer>")) == -1
