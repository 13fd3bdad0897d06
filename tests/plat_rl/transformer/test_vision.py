"""Pictures in the embedded transformer against transformers' Qwen2.5-VL, and the ids of their patches."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st

from plat.errors import CheckpointError, RunError
from plat_envs.api import Observation
from plat_rl.embedded.batch import pad_prompts
from plat_rl.embedded.generate import generate
from plat_rl.embedded.transformer import hf
from plat_rl.embedded.transformer.flat_pass import hidden_states
from plat_rl.embedded.transformer.model import encode, extend, initialise, unpack
from plat_rl.embedded.transformer.tokenizer import WordTokenizer, save_word_tokenizer, tokenizer_of
from plat_rl.embedded.transformer.vision import VISUAL, positions, sections, visual_tokens
from plat_rl.run_config import ShapeConfig

WORDS = WordTokenizer(vision=True)
SHAPE = hf.shape_of(ShapeConfig(layers=2, width=32, heads=4, kv_heads=2, ffn=48, rope_theta=10.0), WORDS.vocabulary, 16)
PAD = WORDS.ids["<image_pad>"]


def picture(rows: int, columns: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, (8 * rows, 8 * columns, 3), dtype=np.uint8)


SEEN = [
    Observation("sokoban <image> 10 <think>", (picture(6, 6),)),
    Observation("<image> <image> 3 <think>", (picture(3, 5, 1), picture(2, 2, 2))),
    "frozenlake _ P _ G <think>",
    Observation("sokoban <image> 10 <think>", (picture(6, 6, 3),)),
]


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Any:
    folder = tmp_path_factory.mktemp("seeing")
    flat = initialise(SHAPE, 1)
    hf.save(folder, SHAPE, flat)
    save_word_tokenizer(folder, WORDS)
    return SimpleNamespace(flat=flat, folder=folder)


@pytest.fixture(scope="module")
def theirs(saved: Any) -> Any:
    from transformers import Qwen2_5_VLForConditionalGeneration

    return Qwen2_5_VLForConditionalGeneration.from_pretrained(saved.folder, attn_implementation="eager").eval()


def inputs_of(saved: Any, seen: Any, more: tuple[int, ...] = ()) -> dict[str, torch.Tensor]:
    """What transformers' model is given: its own image processor's features, and ids with pads for patches."""
    from transformers.models.qwen2_vl.image_processing_pil_qwen2_vl import Qwen2VLImageProcessorPil

    ids = torch.tensor([[*WORDS.prompt(seen), *more]])
    visual = ids >= VISUAL
    inputs = {"input_ids": ids.masked_fill(visual, PAD), "mm_token_type_ids": visual.int()}
    if isinstance(seen, Observation):
        processor = Qwen2VLImageProcessorPil.from_pretrained(saved.folder)
        inputs |= dict(processor(images=list(seen.images), return_tensors="pt"))
    return inputs


def test_a_checkpoint_comes_back(saved):
    shape, flat = hf.load(saved.folder)
    assert shape == SHAPE and torch.equal(flat, saved.flat)
    assert tokenizer_of(saved.folder).ids == WORDS.ids


def test_a_checkpoint_that_transformers_saved_again_comes_back(theirs, saved, tmp_path):
    theirs.save_pretrained(tmp_path)
    shape, flat = hf.load(tmp_path)
    assert shape == SHAPE and torch.equal(flat, saved.flat)


@pytest.mark.parametrize("content", [[], None, {"model_type": "qwen2_5_vl", "vision_config": [1]}])
def test_a_config_that_is_none_is_refused(tmp_path, content):
    (tmp_path / "config.json").write_text(json.dumps(content))
    with pytest.raises(CheckpointError, match=r"config\.json is not that of a model"):
        hf.load(tmp_path)


@pytest.mark.parametrize("seen", SEEN, ids=["a board", "two pictures", "text", "another board"])
def test_logits_are_those_of_transformers(saved, theirs, seen):
    weights = unpack(SHAPE, saved.flat)
    ids = torch.tensor([WORDS.prompt(seen)])
    with torch.no_grad():
        ours = F.linear(extend(weights, None, None, ids), weights.head)
        torch.testing.assert_close(ours, theirs(**inputs_of(saved, seen)).logits, atol=1e-5, rtol=0)


def test_prompts_of_other_lengths_in_one_batch_go_on_as_in_transformers(saved, theirs):
    weights = unpack(SHAPE, saved.flat)
    prompts = [tuple(WORDS.prompt(seen)) for seen in SEEN]
    response = WORDS.encode("box 3 3 so up </think>")
    ids, lengths, last = pad_prompts(prompts, WORDS.pad, "cpu")
    fed = torch.cat((last[:, None], torch.tensor([response[:-1]] * len(prompts))), 1)
    with torch.no_grad():
        hidden = extend(weights, encode(weights, ids, lengths), torch.arange(len(prompts)), fed)
        ours = F.linear(hidden, weights.head)
        for row, seen in enumerate(SEEN):
            logits = theirs(**inputs_of(saved, seen, tuple(response))).logits[0, -len(response) - 1 : -1]
            torch.testing.assert_close(ours[row], logits, atol=1e-5, rtol=0)


def test_gradients_are_those_of_transformers(saved, theirs):
    response = WORDS.encode("box 3 3 so up </think> <eos>")
    batch = SimpleNamespace(
        prompts=[tuple(WORDS.prompt(seen)) for seen in SEEN],
        prompt_of_row=np.array([0, 1, 2, 3, 0]),
        responses=np.array([response] * 5),
        response_length=np.array([len(response)] * 5),
    )
    chosen = torch.tensor(response * 5)
    flat = saved.flat.clone().requires_grad_()
    weights = unpack(SHAPE, flat)
    F.cross_entropy(F.linear(hidden_states(weights, batch, WORDS.pad), weights.head), chosen).backward()
    ours = hf.to_state_dict(SHAPE, flat.grad)
    theirs.zero_grad()
    for row in batch.prompt_of_row:
        logits = theirs(**inputs_of(saved, SEEN[row], tuple(response))).logits[0, -len(response) - 1 : -1]
        (F.cross_entropy(logits, torch.tensor(response)) / 5).backward()
    compared = {hf._hub_name(name): parameter.grad for name, parameter in theirs.named_parameters()}
    assert compared.keys() - {"lm_head.weight"} == ours.keys()
    for name, gradient in ours.items():
        torch.testing.assert_close(gradient, compared[name], atol=1e-6, rtol=1e-3, msg=name)
    assert float(ours["visual.patch_embed.proj.weight"].abs().max()) > 1e-3


def test_a_flat_pass_and_passes_in_two_parts_agree(saved):
    prompts = [tuple(WORDS.prompt(seen)) for seen in SEEN]
    lengths = np.array([3, 1, 6, 2, 6])
    responses = np.random.default_rng(0).integers(1, 40, (5, 6))
    batch = SimpleNamespace(
        prompts=prompts, prompt_of_row=np.array([0, 1, 2, 3, 0]), responses=responses, response_length=lengths
    )
    results = []
    for parts in (False, True):
        flat = saved.flat.double().requires_grad_()
        weights = unpack(SHAPE, flat)
        if parts:
            rows = []
            for row, length in enumerate(lengths):
                ids, _, last = pad_prompts([prompts[batch.prompt_of_row[row]]], WORDS.pad, "cpu")
                fed = torch.cat((last[:, None], torch.from_numpy(responses[row : row + 1, : length - 1])), 1)
                rows.append(extend(weights, encode(weights, ids), torch.zeros(1, dtype=torch.long), fed)[0])
            states = torch.cat(rows)
        else:
            states = hidden_states(weights, batch, WORDS.pad)
        states.square().sum().backward()
        results.append((states.detach(), flat.grad))
    for one, other in zip(*results, strict=True):
        torch.testing.assert_close(one, other, atol=1e-10, rtol=1e-8)


def test_what_is_generated_is_what_transformers_generates(saved, theirs):
    weights = unpack(SHAPE, saved.flat)
    prompts = [tuple(WORDS.prompt(seen)) for seen in SEEN]
    chances = np.full((len(SEEN), 12), 0.5, dtype=np.float32)
    spoken = generate(weights, WORDS, prompts, np.arange(len(SEEN)), chances, temperature=0.0)
    for row, seen in enumerate(SEEN):
        inputs = inputs_of(saved, seen)
        length = inputs["input_ids"].shape[1]
        told = theirs.generate(
            **inputs, attention_mask=torch.ones_like(inputs["input_ids"]), max_new_tokens=12, do_sample=False,
            suppress_tokens=WORDS.undrawn, eos_token_id=WORDS.eos, pad_token_id=WORDS.pad,
        )[0, length:]  # fmt: skip
        ours = spoken.responses[row, : spoken.response_length[row]].tolist()
        assert ours == told.tolist()[: len(ours)]


def test_words_that_announce_pictures_are_never_drawn(saved):
    flat = saved.flat.clone()
    embed = flat[: SHAPE.vocabulary * SHAPE.width].view(SHAPE.vocabulary, SHAPE.width)
    embed[WORDS.undrawn] *= 20  # nearly all of the probability, one way or the other
    weights = unpack(SHAPE, flat)
    prompts = [tuple(WORDS.prompt(SEEN[0]))]
    chances = np.random.default_rng(0).random((200, 4), dtype=np.float32)
    for temperature in (1.0, 0.0):
        spoken = generate(weights, WORDS, prompts, np.zeros(200, dtype=int), chances, temperature)
        assert not np.isin(spoken.responses, WORDS.undrawn).any()
    batch = SimpleNamespace(prompts=prompts, prompt_of_row=np.zeros(200, dtype=int), **spoken._asdict())
    hidden = hidden_states(weights, batch, WORDS.pad)
    likely = F.linear(hidden, weights.head).softmax(-1)[:, WORDS.undrawn].sum(-1)
    assert float(likely.max()) > 0.5  # the test can fail


@given(st.lists(st.one_of(st.integers(1, 6), st.tuples(st.integers(1, 4), st.integers(1, 5))), min_size=1, max_size=6))
def test_positions_are_those_of_transformers(parts):
    """Numbers are runs of text, pairs are pictures; transformers needs text between pictures, as ids have it."""
    from transformers import Qwen2_5_VLConfig, Qwen2_5_VLModel

    tokens, grids = [1], []
    for part in parts:
        if isinstance(part, int):
            tokens += [1] * part
        else:
            tokens += [*visual_tokens(picture(*part)), 1]
            grids.append((1, *part))
    ids = torch.tensor([tokens])
    vision_config = SimpleNamespace(spatial_merge_size=1, tokens_per_second=4)
    model = SimpleNamespace(
        config=SimpleNamespace(vision_config=vision_config),
        get_vision_position_ids=lambda *given, **named: Qwen2_5_VLModel.get_vision_position_ids(None, *given, **named),
    )
    assert Qwen2_5_VLConfig().vision_config.tokens_per_second == 4
    expected, deltas = Qwen2_5_VLModel.get_rope_index(model, ids, (ids >= VISUAL).int(), torch.tensor(grids or [[0]]))
    actual = positions(ids.numpy())
    assert actual[0, :-1].T.tolist() == expected[:, 0].tolist()
    assert actual[0, -1].tolist() == [len(tokens) + int(deltas[0, 0])] * 3


def test_two_pictures_without_text_between_them_are_two():
    ids = np.array([[*visual_tokens(picture(2, 2)), *visual_tokens(picture(1, 3)), 1]])
    assert positions(ids)[0, :, 2].tolist() == [0, 1, 0, 1, 2, 3, 4, 5, 6]


def test_sections_are_those_of_the_published_model():
    assert sections(128) == (16, 24, 24) and sections(16) == (2, 3, 3) and sum(sections(8)) == 4


def test_ids_name_what_is_shown_and_where():
    board = picture(3, 3)
    other = board.copy()
    other[9, 17, 2] ^= 1
    ids, changed = visual_tokens(board), visual_tokens(other)
    assert [number for number in range(9) if ids[number] != changed[number]] == [5]
    plain = visual_tokens(np.zeros((16, 16, 3), dtype=np.uint8))
    assert len(set(plain)) == 4 and len({number >> 12 for number in plain}) == 1
    assert min(ids + plain) >= VISUAL and max(ids + plain) < 2**63


@pytest.mark.parametrize("shape", [(8, 8), (12, 8, 3), (8, 8, 4), (0, 8, 3), (8, 8 * 65, 3)])
def test_what_is_not_made_of_patches_is_refused(shape):
    with pytest.raises(ValueError, match="patches"):
        visual_tokens(np.zeros(shape, dtype=np.uint8))


def test_a_prompt_is_read_as_words_and_pictures():
    ids = WORDS.prompt(SEEN[1])
    assert WORDS.decode(ids) == "<image> <image> 3 <think>"
    assert WORDS.prompt(SEEN[2]) == WordTokenizer().prompt(SEEN[2])  # text has the ids of a text model
    assert WORDS.prompt(SEEN[0]) != WORDS.prompt(SEEN[3])  # equal texts, other boards


@pytest.mark.parametrize("images", [(), (picture(1, 1), picture(1, 1))], ids=["too few", "too many"])
def test_places_without_pictures_and_pictures_without_places_are_refused(images):
    with pytest.raises(RunError, match=f"1 places <image> for {len(images)} pictures"):
        WORDS.prompt(Observation("sokoban <image> <think>", images))


def test_a_picture_of_floats_is_refused():
    with pytest.raises(ValueError, match="float64, not uint8"):
        visual_tokens(picture(1, 1) / 255)
