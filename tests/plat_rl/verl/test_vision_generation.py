"""Generation with pictures is what transformers computes, for batches of different numbers of pictures."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from tiny_vision import END, PAD, START, load_model, make_checkpoint, picture

from plat_rl.verl.cpu import generation
from plat_rl.verl.cpu.generation import Request, generate
from plat_rl.verl.vision.processor import VisionProcessor, load_processor

pytestmark = pytest.mark.filterwarnings("ignore")  # the imports of transformers give FutureWarnings
EOS = frozenset({2})


@pytest.fixture(scope="module", params=[(1, 1, 0), (2, 2, 1)], ids=["stand-in", "merged patches of two frames"])
def loaded(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, VisionProcessor]:
    merge, temporal, depth = request.param
    folder = make_checkpoint(tmp_path_factory.mktemp("tiny"), merge, temporal, depth)
    processor = load_processor(str(folder))
    assert processor is not None
    return load_model(folder), processor


def asked(
    processor: VisionProcessor, images: Sequence[Any], before: list[int], after: list[int], **more: Any
) -> Request:
    ids = processor.expand([*before, *[START, PAD, END] * len(images), *after], images)
    return Request(ids, more.get("seed", 1), more.get("temperature", 0.0), 6, images)


def requests(processor: VisionProcessor, **more: Any) -> list[Request]:
    """One picture, none, two of different sizes: prompts of different lengths, so two are padded."""
    wide, square = picture(0), picture(2, 48, 48)
    return [
        asked(processor, [wide], [5, 6], [7, 8], **more),
        asked(processor, [], [9], [10], **more),
        asked(processor, [picture(1), square], [5], [11, 12, 13], **more),
    ]


def inputs_of(processor: VisionProcessor, request: Request, response: Sequence[int] = ()) -> dict[str, torch.Tensor]:
    """What transformers' own processor gives its model."""
    ids = torch.tensor([[*request.prompt, *response]])
    inputs = {"input_ids": ids, "attention_mask": torch.ones_like(ids), "mm_token_type_ids": (ids == PAD).int()}
    if request.images:
        inputs["pixel_values"], inputs["image_grid_thw"] = processor.features(request.images)
    return inputs


def test_the_likeliest_tokens_are_those_of_transformers(loaded: tuple[Any, VisionProcessor]) -> None:
    model, processor = loaded
    asks = requests(processor)
    for request, response in zip(asks, generate(model, asks, EOS, 0, processor), strict=True):
        expected = model.generate(
            **inputs_of(processor, request), max_new_tokens=6, do_sample=False, suppress_tokens=[START, PAD, END]
        )
        assert response.tokens == expected[0, len(request.prompt) :].tolist()


def test_log_probs_are_those_of_one_pass_over_each_sequence_alone(loaded: tuple[Any, VisionProcessor]) -> None:
    model, processor = loaded
    asks = requests(processor, temperature=0.7)
    for request, response in zip(asks, generate(model, asks, EOS, 0, processor), strict=True):
        with torch.inference_mode():
            logits = model(**inputs_of(processor, request, response.tokens)).logits[0]
        logs = (logits / 0.7).log_softmax(-1)[len(request.prompt) - 1 : -1]
        expected = logs.gather(-1, torch.tensor(response.tokens)[:, None])[:, 0]
        assert torch.allclose(torch.tensor(response.log_probs), expected, atol=1e-5)


def test_pictures_and_their_positions_matter(loaded: tuple[Any, VisionProcessor]) -> None:
    """Otherwise the comparisons above would show nothing."""
    model, processor = loaded
    request = requests(processor)[2]
    right = inputs_of(processor, request)
    with torch.inference_mode():
        logits = model(**right).logits[0, -1]
        as_text = model(**{**right, "mm_token_type_ids": None}).logits[0, -1]
        other = model(**{**right, "pixel_values": right["pixel_values"].flip(0)}).logits[0, -1]
    assert (logits - as_text).abs().max() > 1e-2 and (logits - other).abs().max() > 1e-2


def test_positions_of_padded_rows_are_those_of_the_model(loaded: tuple[Any, VisionProcessor]) -> None:
    model, processor = loaded
    asks = requests(processor)
    ids, mask = generation._left_padded([request.prompt for request in asks], 0)
    positions, features = generation._positions(ids, mask, asks, processor)
    expected, _ = model.model.get_rope_index(
        ids, mm_token_type_ids=(ids == PAD).int(), image_grid_thw=features["image_grid_thw"], attention_mask=mask
    )
    assert torch.equal(positions, expected)
    for row, request in enumerate(asks):  # and padding moves nothing
        alone, _ = generation._positions(*generation._left_padded([request.prompt], 0), [request], processor)
        assert torch.equal(positions[:, row, -len(request.prompt) :], alone[:, 0])
    assert not torch.equal(positions[1, 2], positions[2, 2]), "rows and columns differ within a picture"


def test_tokens_of_pictures_are_never_drawn_and_count_in_log_probs(loaded: tuple[Any, VisionProcessor]) -> None:
    _, processor = loaded
    vocabulary = processor.config.get_text_config().vocab_size
    logits = torch.zeros(1, 1, vocabulary)
    logits[..., [START, PAD, END]] = 9.0  # nearly all of the mass

    class Eager:
        def parameters(self) -> Any:
            return iter([torch.zeros(1)])

        def __call__(self, input_ids: torch.Tensor, **unused: Any) -> Any:
            return SimpleNamespace(logits=logits.expand(len(input_ids), -1, -1), past_key_values=None)

    asks = [asked(processor, [], [5], [6], seed=seed, temperature=float(seed > 0)) for seed in range(40)]
    answers = generate(Eager(), asks, EOS, 0, processor)
    drawn = {token for answer in answers for token in answer.tokens}
    assert not drawn & {START, PAD, END} and len(drawn) > 50
    whole = logits[0, 0].log_softmax(-1)
    assert all(
        score == pytest.approx(float(whole[token]), abs=1e-5)
        for answer in answers[1:]
        for token, score in zip(answer.tokens, answer.log_probs, strict=True)
    )


def test_a_batch_is_bounded_by_its_features() -> None:
    from plat_rl.verl.cpu.cpu_rollout import FEATURES, ROWS, HFServer

    server = object.__new__(HFServer)
    request = SimpleNamespace(images=())
    server.waiting = [(request, None)] * 1000  # type: ignore[list-item]
    for size, count in ((0, ROWS), (FEATURES // 10, 10), (FEATURES + 1, 1)):
        server.vision = SimpleNamespace(feature_bytes=lambda images, size=size: size)  # type: ignore[assignment]
        assert server._fitting() == count
    server.vision = None
    assert server._fitting() == ROWS
