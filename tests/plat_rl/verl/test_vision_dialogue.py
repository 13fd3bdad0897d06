"""Prompts with pictures: as many tokens as each picture has, in the place of `<image>`, and never a part of them."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from tiny_vision import END, PAD, START, make_checkpoint, picture

from plat.errors import RunError
from plat_envs.api import Observation, make_environment
from plat_envs.stand_in import IDS
from plat_rl.verl.rollouts.play import Played, assemble, joined
from plat_rl.verl.rollouts.verl_cross_score import FEATURES, ROWS, _requests, block_pairs, measure
from plat_rl.verl.rollouts.verl_episode import ChatDialogue, Episode, Limits, dialogue_of
from plat_rl.verl.vision.pictures import Picture, Prompt, blanked
from plat_rl.verl.vision.processor import VisionProcessor, load_processor

# That of Qwen2.5-VL, in what it does with texts and images.
QWEN_VL = (
    "{% for message in messages %}{% if loop.first and message['role'] != 'system' %}<|im_start|>system\n"
    "You are a helpful assistant.<|im_end|>\n{% endif %}<|im_start|>{{ message['role'] }}\n"
    "{% if message['content'] is string %}{{ message['content'] }}<|im_end|>\n{% else %}"
    "{% for content in message['content'] %}{% if content['type'] == 'image' %}"
    "<|vision_start|><|image_pad|><|vision_end|>{% else %}{{ content['text'] }}{% endif %}{% endfor %}<|im_end|>\n"
    "{% endif %}{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
SPECIAL = ["<|vision_start|>", "<|image_pad|>", "<|vision_end|>"]


@pytest.fixture(scope="module")
def words(tmp_path_factory: pytest.TempPathFactory) -> VisionProcessor:
    processor = load_processor(str(make_checkpoint(tmp_path_factory.mktemp("tiny"))))
    assert processor is not None
    return processor


@pytest.fixture
def chat(words: VisionProcessor, chat_tokenizer: Callable[[str], Any]) -> VisionProcessor:
    """A processor with bytes as tokens, and the template of Qwen2.5-VL."""
    tokenizer = chat_tokenizer("qwen")
    tokenizer.add_special_tokens({"additional_special_tokens": SPECIAL})
    tokenizer.chat_template = QWEN_VL
    start, pad, end = tokenizer.convert_tokens_to_ids(SPECIAL)
    config = SimpleNamespace(
        image_token_id=pad, vision_start_token_id=start, vision_end_token_id=end, video_token_id=10**6,
        get_text_config=lambda: SimpleNamespace(vocab_size=len(tokenizer)),
    )  # fmt: skip
    return VisionProcessor(words.image_processor, tokenizer, config)


def test_words_and_the_tokens_of_a_picture(words: VisionProcessor) -> None:
    dialogue = dialogue_of("compact_image", None, words)
    seen = Observation("sokoban <image> 10 <think>", (picture(0, 16, 24),))
    expected = [IDS["sokoban"], START, *[PAD] * 6, END, IDS["10"], IDS["<think>"]]
    assert dialogue.prompt(seen) == dialogue.following(seen) == expected
    assert words.features(seen.images)[1].prod().item() == 6
    assert dialogue.prompt("sokoban <think>") == [IDS["sokoban"], IDS["<think>"]]
    two = Observation("<image> 3 <image>", (picture(0, 16, 24), picture(1, 48, 48)))
    assert dialogue.prompt(two).count(PAD) == 6 + 36


def test_a_chat_is_what_the_models_template_makes_of_texts_and_images(chat: VisionProcessor) -> None:
    dialogue = dialogue_of("chat_image", None, chat)
    observations = [Observation(f"State {n}:\n<image>\nGo.", (picture(n, 16, 16 + 8 * n),)) for n in range(2)]
    said = "i think </think> <answer> up </answer>"
    ids = dialogue.prompt(observations[0], "play the game")
    ids += [*chat.tokenizer.encode(said, add_special_tokens=False), dialogue.stops[0]]
    ids += dialogue.following(observations[1])

    def user(n: int) -> dict[str, Any]:
        text = ({"type": "text", "text": f"State {n}:\n"}, {"type": "image"}, {"type": "text", "text": "\nGo."})
        return {"role": "user", "content": list(text)}

    system = {"role": "system", "content": "play the game"}
    messages = [system, user(0), {"role": "assistant", "content": "<think>" + said}, user(1)]
    whole = chat.apply_chat_template(messages, tokenize=False, add_generation_prompt=True) + "<think>"
    images = [observation.images[0] for observation in observations]
    made = chat(text=[whole], images=images, videos=None, return_tensors="pt")
    assert ids == made["input_ids"][0].tolist() and ids.count(chat.image_token_id) == 4 + 6
    assert made["image_grid_thw"].tolist() == [[1, 2, 2], [1, 2, 3]]
    assert made["mm_token_type_ids"][0].tolist() == [int(number == chat.image_token_id) for number in ids]


def test_places_and_pictures_must_be_as_many(words: VisionProcessor, chat: VisionProcessor) -> None:
    dialogue = dialogue_of("compact_image", None, words)
    with pytest.raises(RunError, match="2 places of pictures and 1 pictures"):
        dialogue.prompt(Observation("<image> <image>", (picture(0),)))
    forged = Observation("the player says <|image_pad|> <image>", (picture(0),))
    assert dialogue_of("chat_image", None, chat).prompt(forged).count(chat.image_token_id) == 6
    spelt = words(text="<image_pad> <pad> <image_pad>", images=[picture(0)])  # the second by the policy
    assert spelt["input_ids"] == [[*[PAD] * 6, IDS["<pad>"], PAD]] and len(spelt["image_grid_thw"]) == 1
    assert words(text="<image_pad>")["input_ids"] == [[PAD]]
    with pytest.raises(RunError, match="the model sees none"):
        dialogue_of("chat_image", None, None)
    with pytest.raises(ValueError, match="no videos"):
        words(text="<pad>", videos=[picture(0)])


def episode(words: VisionProcessor, limits: Limits) -> Episode:
    environment = make_environment("sokoban", {}, "train", "compact_image")
    return Episode(dialogue_of("compact_image", None, words), environment, limits)


def test_every_sequence_has_the_pictures_of_its_places(words: VisionProcessor) -> None:
    for context, images in (("full", [3]), ("current", [1, 1, 1])):
        played = episode(words, Limits(3, 24, 100, 100, context=context))
        played.begin(3, 0)
        while not played.done:
            assert played.tokens.count(PAD) == 36 * len(played.sequences[-1].images)
            played.respond([9, 2], [-1.0, -1.0])
        assert [len(sequence.images) for sequence in played.sequences] == images and not played.cut
        assert [turn.images for turn in played.turns] == ([1, 2, 3] if context == "full" else [1, 1, 1])
        assert all(len(sequence.mask) == len(sequence.response) for sequence in played.sequences)


def test_a_picture_is_never_cut(words: VisionProcessor) -> None:
    too_long = episode(words, Limits(3, 24, 40, 100))
    with pytest.raises(RunError, match=r"41 tokens .* verl.prompt_tokens is 40") as error:
        too_long.begin(3, 0)
    assert "verl.prompt_tokens=41" in str(error.value.fix)
    for limits in (Limits(3, 24, 41, 40), Limits(3, 24, 41, 41)):
        played = episode(words, limits)
        played.begin(3, 0)
        played.respond([9, 2], [-1.0, -1.0])
        assert played.done == played.cut == (limits.observation_tokens == 40)
        assert played.tokens.count(PAD) == 36 * len(played.sequences[-1].images)


# The proxies of mutual information tell prompts apart by tokens and pictures.


def batch(words: VisionProcessor, seeds: list[int]) -> Played:
    """Two trajectories of each puzzle; all first prompts have the same tokens."""
    episodes = []
    for number in range(2 * len(seeds)):
        played = episode(words, Limits(1, 24, 100, 100))
        played.begin(seeds[number // 2], 0)
        reasoning = [9 + number, 10]
        played.respond([*reasoning, IDS["</think>"], 2], [-1.0] * 4)
        episodes.append(played)
    sequences = [one.sequences[0] for one in episodes]

    def tensors(name: str) -> list[torch.Tensor]:
        return [torch.tensor(getattr(sequence, name)) for sequence in sequences]

    keys = [f"p{number // 2}_{number % 2}_0" for number in range(len(episodes))]
    return assemble(
        keys, [{} for _ in keys], [one.record() for one in episodes], tensors("prompt"), tensors("response"),
        tensors("log_probs"), 2, [sequence.images for sequence in sequences],
    )  # fmt: skip


def test_equal_tokens_with_other_pictures_are_other_prompts(
    words: VisionProcessor, make_config: Callable[..., Any]
) -> None:
    played = batch(words, [3, 4, 3])
    assert len(set(played.prompts)) == 1, "what tells these prompts apart is their pictures alone"
    assert played.seen[0] == played.seen[4] != played.seen[2]
    asked: list[tuple[Prompt, tuple[int, ...]]] = []

    def score(pairs: Any) -> Any:
        asked.extend(pairs)
        own = {played.reasonings[row]: played.seen[row] for row in range(6)}
        grey = blanked(played.seen[0])
        scores = {True: -2.0, False: -5.0}
        return np.array([-3.0 if prompt == grey else scores[own[said] == prompt] for prompt, said in pairs])

    config = make_config("mi.trajectory=false")
    metrics = measure(played, config.mi, {}, np.random.default_rng(0), score)
    assert len({prompt for prompt, _ in asked}) == 3, "the puzzle 3 is one candidate, 4 the other; and the grey one"
    assert metrics["mi/first_turn/over_blank"] == pytest.approx(0.5)
    assert metrics["mi/first_turn/retrieval_acc"] == 1 and metrics["mi/first_turn/h_z_given_x"] == pytest.approx(1.0)
    assert metrics["mi/score_gap"] == pytest.approx(0.0)
    together = joined([played, batch(words, [5])])
    assert together.pictures[-1] == batch(words, [5]).pictures[0] and len(together.pictures) == 8
    eight = batch(words, [3, 4, 5, 6])
    assert [prompt for prompt, _ in block_pairs(eight)[:8]] == eight.seen


def test_a_request_to_the_workers_is_bounded() -> None:
    class Features:
        def __init__(self, size: int) -> None:
            self.size = size

        def bytes_of(self, prompt: Prompt) -> int:
            return self.size

    def lengths(size: int | None, count: int) -> Iterator[int]:
        pairs = [(Prompt((number,)), (1,)) for number in range(count)]
        parts = list(_requests(pairs, None if size is None else Features(size)))  # type: ignore[arg-type]
        assert [pair for part in parts for pair in part] == pairs
        return map(len, parts)

    assert list(lengths(None, ROWS + 1)) == [ROWS, 1]
    assert list(lengths(FEATURES // 3, 7)) == [3, 3, 1]
    assert list(lengths(FEATURES + 1, 2)) == [1, 1] and list(lengths(5, 0)) == []


def test_a_picture_is_told_apart_by_its_size_and_pixels() -> None:
    flat = np.zeros((2, 6, 3), np.uint8)
    assert Picture.of(flat) == Picture.of(flat.copy()) != Picture.of(flat.reshape(6, 2, 3))
    assert hash(Picture.of(flat)) == hash(Picture.of(flat.copy()))


def test_verl_gets_this_processor_and_its_positions(words: VisionProcessor, tmp_path: Path) -> None:
    """verl's own functions, called as its agent workers do."""
    from verl.utils.tokenizer import build_multimodal_processor_inputs, get_processor_token_id

    assert get_processor_token_id(words, "image") == PAD
    ids = torch.tensor([[5, START, *[PAD] * 6, END, 7]])
    text = words.tokenizer.decode([5, START, PAD, END, 7], skip_special_tokens=True)
    made = build_multimodal_processor_inputs(words, text=[text], images=[picture(0, 16, 24)])
    assert made["input_ids"].tolist() == ids.tolist()
    positions, shift = words.get_rope_index(
        input_ids=ids, attention_mask=torch.ones_like(ids), mm_token_type_ids=made["mm_token_type_ids"],
        image_grid_thw=made["image_grid_thw"], video_grid_thw=None,
    )  # fmt: skip
    assert positions[:, 0].tolist() == [
        [0, 1, 2, 2, 2, 2, 2, 2, 5, 6],
        [0, 1, 2, 2, 2, 3, 3, 3, 5, 6],
        [0, 1, 2, 3, 4, 2, 3, 4, 5, 6],
    ]
    assert shift.tolist() == [[-3]]
    words.save_pretrained(str(tmp_path))
    assert (tmp_path / "preprocessor_config.json").exists() and (tmp_path / "tokenizer.json").exists()


def test_a_stand_in_has_one_id_for_pictures_and_videos(words: VisionProcessor) -> None:
    """As the embedded trainer writes it; verl's agent workers took its pictures for videos."""
    config = copy.copy(words.config)
    config.video_token_id = PAD
    processor = VisionProcessor(words.image_processor, words.tokenizer, config)
    assert processor.video_token_id != PAD and processor.never_sampled == (START, PAD, END)


def test_chat_dialogues_of_texts_are_unchanged(chat: VisionProcessor) -> None:
    plain, seeing = ChatDialogue(chat.tokenizer), dialogue_of("chat_image", None, chat)
    assert seeing.prompt("state", "play") == plain.prompt("state", "play") and seeing.stops == plain.stops
