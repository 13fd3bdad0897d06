"""Text to token ids and back: whole words for the stand-ins, a Hugging Face tokenizer for real checkpoints.

In both, a prompt ends inside the think section (generation is prefilled with `<think>`); a response ends with `eos`.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Protocol

from plat.errors import RunError
from plat.extras import require_extra
from plat.plain_files import read_json_value
from plat_envs.api import IMAGE, Observation, Seen
from plat_envs.stand_in import END_THINK, WORDS
from plat_rl.loop.turns import Dialogue

VISION_START, IMAGE_PAD, VISION_END = "<vision_start>", "<image_pad>", "<vision_end>"
VISION = (VISION_START, IMAGE_PAD, VISION_END)  # follow WORDS in the vocabulary of a stand-in that sees pictures


class Tokenizer(Dialogue, Protocol):
    """A dialogue whose responses end with `eos`, its only stop. `vocabulary` is the number of its ids.

    undrawn   ids that no response may have, because they announce pictures
    """

    vocabulary: int
    pad: int
    eos: int
    undrawn: list[int]

    def encode(self, text: str) -> list[int]: ...


class WordTokenizer:
    """One token per word of `plat_envs.stand_in.WORDS`, joined by single spaces.

    vision   pictures are tokens, too: a patch each, between the words VISION_START and VISION_END

    `encode` raises KeyError for other words. `prompt` and `following` also raise RunError if an observation has not as
    many places as pictures.
    """

    def __init__(self, vision: bool = False) -> None:
        self.words = (*WORDS, *VISION) if vision else WORDS
        self.ids = {word: number for number, word in enumerate(self.words)}
        self.vocabulary = len(self.words)
        self.pad, self.eos = self.ids["<pad>"], self.ids["<eos>"]
        self.stops: tuple[int, ...] = (self.eos,)
        self.undrawn = [self.ids[word] for word in VISION] if vision else []

    def encode(self, text: str) -> list[int]:
        return [self.ids[word] for word in text.split(" ")]

    def prompt(self, observation: Seen, instructions: str = "") -> list[int]:
        return self.following(observation)

    def following(self, observation: Seen) -> list[int]:
        if not isinstance(observation, Observation):
            return self.encode(observation)
        from plat_rl.embedded.transformer.vision import visual_tokens

        words, images = observation.text.split(" "), iter(observation.images)
        if words.count(IMAGE) != len(observation.images):
            # a policy would see less than the environment shows, in silence
            raise RunError(
                f"an observation has {words.count(IMAGE)} places {IMAGE} for {len(observation.images)} pictures",
                where="task",
                fix=f"the environment writes {IMAGE} once for each picture, as a separate word",
            )
        start, end = self.ids[VISION_START], self.ids[VISION_END]
        ids = []
        for word in words:
            ids += [start, *visual_tokens(next(images)), end] if word == IMAGE else [self.ids[word]]
        return ids

    def decode(self, ids: list[int]) -> str:
        start, end = self.ids.get(VISION_START), self.ids.get(VISION_END)
        texts = [IMAGE if number == start else self.words[number] for number in ids if number < self.vocabulary]
        return " ".join(texts if end is None else [text for text in texts if text != VISION_END])

    def reasoning_tokens(self, response: list[int]) -> int:
        close = self.ids[END_THINK]
        return response.index(close) if close in response else -1


class PretrainedTokenizer:
    """The tokenizer of a local checkpoint, with its chat template; `following` assumes that of Qwen2.5.

    It reads text alone (`plat_rl.validation.check_rendering`).
    """

    def __init__(self, folder: Path) -> None:
        require_extra("hub", "a checkpoint of Hugging Face", "model.path")
        from transformers import AutoTokenizer

        self._inner: Any = AutoTokenizer.from_pretrained(folder, local_files_only=True)
        self.vocabulary = len(self._inner)
        self.eos = self._inner.eos_token_id
        self.stops: tuple[int, ...] = (self.eos,)
        self.pad = self._inner.pad_token_id if self._inner.pad_token_id is not None else self.eos
        self.undrawn: list[int] = []

    def prompt(self, observation: Seen, instructions: str = "") -> list[int]:
        assert isinstance(observation, str)
        messages = [{"role": "system", "content": instructions}] if instructions else []
        messages.append({"role": "user", "content": observation})
        text = self._inner.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
        return self.encode(text + "<think>")

    def following(self, observation: Seen) -> list[int]:
        # Qwen2.5's template, written out: a template applied to one later message would repeat its system message.
        return self.encode(f"\n<|im_start|>user\n{observation}<|im_end|>\n<|im_start|>assistant\n<think>")

    def encode(self, text: str) -> list[int]:
        ids: list[int] = self._inner.encode(text, add_special_tokens=False)
        return ids

    def decode(self, ids: list[int]) -> str:
        text: str = self._inner.decode(ids, skip_special_tokens=True)
        return text

    def reasoning_tokens(self, response: list[int]) -> int:
        for end in range(1, len(response) + 1):
            if "</think>" in self._inner.decode(response[max(0, end - 8) : end]):
                start = end
                while start > 0 and "<" not in self._inner.decode(response[start - 1 : end]):
                    start -= 1
                return max(0, start - 1)
        return -1


def tokenizer_of(folder: Path) -> Tokenizer:
    """Return the tokenizer of a local checkpoint: that of words, or Hugging Face's, whose errors are not caught."""
    return _of_words(folder) or PretrainedTokenizer(folder)


def is_of_words(folder: Path) -> bool:
    """Return True if a checkpoint has the word list of the stand-ins, also after another program saved it again."""
    return _of_words(folder) is not None


def _of_words(folder: Path) -> WordTokenizer | None:
    try:
        words = read_json_value(folder / "tokenizer.json")["model"]["vocab"]
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return next((own for own in map(WordTokenizer, (False, True)) if own.ids == words), None)


def save_word_tokenizer(folder: Path, tokenizer: WordTokenizer) -> None:
    """Write the word tokenizer as Hugging Face files for `AutoTokenizer.from_pretrained(folder)`."""
    fast: dict[str, Any] = {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [],
        "normalizer": None,
        "pre_tokenizer": {"type": "WhitespaceSplit"},
        "post_processor": None,
        "decoder": None,
        "model": {"type": "WordLevel", "vocab": tokenizer.ids, "unk_token": "<pad>"},
    }
    (folder / "tokenizer.json").write_text(json.dumps(fast, indent=2, ensure_ascii=False), encoding="utf-8")
    template = "{% for message in messages %}{{ message['content'] + ' ' }}{% endfor %}"
    (folder / "tokenizer_config.json").write_text(
        json.dumps(
            {
                "tokenizer_class": "PreTrainedTokenizerFast",
                # Without it transformers 5 takes Qwen2's own byte-pair rules for every model of type qwen2. The class
                # named here is looked for only under trust_remote_code=True, which a stand-in does not need.
                "auto_map": {"AutoTokenizer": ["none.WordTokenizer", "none.WordTokenizer"]},
                "pad_token": "<pad>",
                "eos_token": "<eos>",
                "unk_token": "<pad>",
                "chat_template": template,
            },
            indent=2,
        )
    )
