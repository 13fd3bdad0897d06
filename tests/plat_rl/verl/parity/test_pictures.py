"""Scores and gradients with pictures by verl's own training worker are those of transformers' model."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tiny_vision import END, PAD, START, load_model, make_checkpoint, picture

from plat_rl.embedded.base_model.base_record import shipped_base
from plat_rl.embedded.scoring import log_likelihoods
from plat_rl.embedded.transformer import hf
from plat_rl.embedded.transformer.model import unpack
from plat_rl.embedded.transformer.tokenizer import WordTokenizer
from plat_rl.environments import make_environments
from plat_rl.verl.rollouts.verl_episode import dialogue_of
from plat_rl.verl.settings.verl_config import VerlRunConfig
from plat_rl.verl.vision.pictures import Picture, Prompt, pictures_of
from plat_rl.verl.vision.processor import VisionProcessor, load_processor

pytestmark = [pytest.mark.verl, pytest.mark.filterwarnings("ignore")]  # what transformers imports warns of its future

Ask = Callable[..., list[dict[str, Any]]]
REASONINGS = ((9, 10, 11), (12, 13))


@pytest.fixture(scope="module", params=["stand-in", "merged patches of two frames"])
def folder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    sizes = {"merge": 1, "temporal": 1} if request.param == "stand-in" else {"merge": 2, "temporal": 2, "depth": 1}
    return make_checkpoint(tmp_path_factory.mktemp("tiny"), **sizes, tie=False)


@pytest.fixture
def processor(folder: Path) -> VisionProcessor:
    loaded = load_processor(str(folder))
    assert loaded is not None
    return loaded


def prompts(processor: VisionProcessor) -> list[Prompt]:
    """Two of equal tokens with other pictures, one with two pictures, and one without."""
    made = []
    for seeds in ((0,), (1,), (2, 3), ()):
        pictures = tuple(Picture.of(picture(seed, 16, 32)) for seed in seeds)
        ids = [5, *[START, PAD, END] * len(pictures), 7, 8]
        made.append(Prompt(tuple(processor.expand(ids, [own.pixels for own in pictures])), pictures))
    return made


def log_probs(model: Any, processor: VisionProcessor, prompt: Prompt, said: tuple[int, ...]) -> torch.Tensor:
    """The log-probabilities of what was said after a prompt, by transformers alone."""
    ids = torch.tensor([[*prompt.tokens, *said]])
    inputs: dict[str, Any] = {"mm_token_type_ids": (ids == PAD).int()}
    if prompt.pictures:
        images = [own.pixels for own in prompt.pictures]
        inputs["pixel_values"], inputs["image_grid_thw"] = processor.features(images)
    logs = model(input_ids=ids, attention_mask=torch.ones_like(ids), **inputs).logits[0].log_softmax(-1)
    return logs[len(prompt.tokens) - 1 : -1].gather(-1, torch.tensor(said)[:, None])[:, 0]


@pytest.mark.parametrize("chosen", [(0, 1, 2, 3), (0, 1)], ids=["with one of text alone", "of equal length"])
def test_scores_are_those_of_transformers(
    ask_verl: Ask,
    as_json: Callable[..., str],
    make_config: Callable[..., VerlRunConfig],
    folder: Path,
    processor: VisionProcessor,
    chosen: tuple[int, ...],
) -> None:
    texts = REASONINGS if len(chosen) > 2 else REASONINGS[:1]
    pairs = [(prompts(processor)[number], said) for number in chosen for said in texts]
    case = {"role": "score", "config": as_json(make_config("algorithm=grpo")), "model": str(folder), "pairs": pairs,
            "tokens": 60, "temperature": 1.0}  # fmt: skip
    (answer,) = ask_verl([case])
    model = load_model(folder)
    with torch.inference_mode():
        expected = [float(log_probs(model, processor, *pair).sum()) for pair in pairs]
    assert answer["scores"] == pytest.approx(expected, abs=1e-4)
    assert len({round(score, 3) for score in expected}) == len(pairs), "each prompt has its own picture's scores"


@pytest.mark.parametrize("chosen", [(0, 1, 2, 3), (0, 1)], ids=["with one of text alone", "of equal length"])
def test_the_gradient_of_an_update_is_that_of_transformers(
    ask_verl: Ask,
    as_json: Callable[..., str],
    make_config: Callable[..., VerlRunConfig],
    folder: Path,
    processor: VisionProcessor,
    chosen: tuple[int, ...],
) -> None:
    """At the old policy it is that of the mean of -advantage x log-probability over the tokens."""
    model, config = load_model(folder), make_config("algorithm=grpo", "algorithm.loss_agg=token-mean")
    config.algorithm.entropy_coef = 0.0
    rows: dict[str, list[Any]] = {name: [] for name in (
        "input_ids", "position_ids", "prompts", "responses", "response_mask", "loss_mask", "old_log_probs",
        "advantages", "multi_modal_inputs",
    )}  # fmt: skip
    loss, tokens, said = torch.zeros(()), 0, REASONINGS[0]
    for number in chosen:
        prompt, advantage = prompts(processor)[number], 1.0 + number
        logs = log_probs(model, processor, prompt, said)
        loss, tokens = loss - advantage * logs.sum(), tokens + len(said)
        ids = torch.tensor([*prompt.tokens, *said])
        inputs: dict[str, torch.Tensor] = {}
        if prompt.pictures:
            pixels, grids = processor.features([own.pixels for own in prompt.pictures])
            inputs = {"pixel_values": pixels, "image_grid_thw": grids}
        positions = processor.positions(ids[None], inputs.get("image_grid_thw"))[:, 0]
        mask = torch.ones(len(said), dtype=torch.int64)
        values = (
            ids, torch.cat((torch.arange(len(ids))[None], positions)), torch.tensor(prompt.tokens), torch.tensor(said),
            mask, mask, logs.detach(), torch.full((len(said),), advantage), inputs,
        )  # fmt: skip
        for name, value in zip(rows, values, strict=True):
            rows[name].append(value)
    (loss / tokens).backward()
    case = {"role": "actor", "config": as_json(config), "model": str(folder), "rows": rows, "head": None,
            "scale": 1.0, "sequences": len(chosen), "tokens": 60, "temperature": 1.0}  # fmt: skip
    (answer,) = ask_verl([case])
    theirs = {name: parameter.grad for name, parameter in model.named_parameters() if parameter.grad is not None}
    assert answer["gradients"].keys() == theirs.keys() and any("visual" in name for name in theirs)
    for name, gradient in theirs.items():
        assert torch.allclose(answer["gradients"][name], gradient, atol=1e-5, rtol=1e-4), name
        assert "visual" not in name or gradient.abs().max() > 0, name


def test_both_trainers_give_one_batch_the_same_scores(
    ask_verl: Ask, as_json: Callable[..., str], make_config: Callable[..., VerlRunConfig]
) -> None:
    """Real boards under the shipped base: the embedded trainer reads patches as ids, verl as pixel values."""
    config = make_config("task=sokoban", "model=qwen2.5-vl-3b", "train.pictures=true")
    base = shipped_base(config.model)
    assert base is not None
    vision, words = load_processor(str(base.folder)), WordTokenizer(vision=True)
    dialogue = dialogue_of("compact_image", None, vision)
    (environment,) = make_environments(config, "train", 1)
    boards = [environment.reset(seed) for seed in range(4)]
    said = [tuple(words.encode(text)) for text in ("box 3 3 so up </think>", "let me try this way </think>")]
    pairs = [
        (Prompt(tuple(dialogue.prompt(board)), tuple(map(Picture.of, pictures_of(board)))), reasoning)
        for board in boards
        for reasoning in said
    ]
    case = {"role": "score", "config": as_json(config), "model": str(base.folder), "pairs": pairs, "tokens": 120,
            "temperature": 1.0}  # fmt: skip
    (answer,) = ask_verl([case])
    shape, flat = hf.load(base.folder)
    lengths = np.array([len(reasoning) for reasoning in said])
    padded = np.array([[*reasoning, *[words.pad] * (int(lengths.max()) - len(reasoning))] for reasoning in said])
    prompted = [tuple(words.prompt(board)) for board in boards]
    scores = log_likelihoods(unpack(shape, flat), prompted, padded, lengths, words.pad)
    assert answer["scores"] == pytest.approx(scores.T.flatten().tolist(), abs=1e-4)
    assert len({round(score, 2) for score in answer["scores"]}) > 4, "boards are told apart"
