"""Observations with pictures as token ids: each `<image>` becomes the tokens of its picture."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from plat.errors import RunError
from plat_envs.api import IMAGE, Seen
from plat_envs.stand_in import IDS
from plat_rl.embedded.transformer.tokenizer import WordTokenizer
from plat_rl.loop.turns import Dialogue
from plat_rl.verl.vision.pictures import pictures_of, text_of
from plat_rl.verl.vision.processor import VisionProcessor


class PictureWords:
    """The words of the stand-ins, and the word `<image>` as the three tokens that begin, hold and end a picture."""

    def __init__(self, vision: VisionProcessor) -> None:
        self._place = [vision.start_id, vision.image_token_id, vision.end_id]
        words = WordTokenizer()
        self.stops = words.stops
        self.decode: Callable[[list[int]], str] = words.decode
        self.reasoning_tokens: Callable[[list[int]], int] = words.reasoning_tokens

    def prompt(self, observation: Seen, instructions: str = "") -> list[int]:
        return self.following(observation)

    def following(self, observation: Seen) -> list[int]:
        words = text_of(observation).split(" ")
        return [number for word in words for number in (self._place if word == IMAGE else [IDS[word]])]


class PictureDialogue:
    """A dialogue whose observations have pictures.

    texts   the dialogue of the texts, in which a place of a picture is one `image_token_id`
    place   what it takes for `<image>`
    """

    def __init__(self, texts: Dialogue, vision: VisionProcessor, place: str) -> None:
        self._texts, self._vision, self._place = texts, vision, place
        self.stops = texts.stops
        self.decode: Callable[[list[int]], str] = texts.decode
        self.reasoning_tokens: Callable[[list[int]], int] = texts.reasoning_tokens

    def prompt(self, observation: Seen, instructions: str = "") -> list[int]:
        return self._expanded(self._texts.prompt(self._text(observation), instructions), observation)

    def following(self, observation: Seen) -> list[int]:
        return self._expanded(self._texts.following(self._text(observation)), observation)

    def _text(self, observation: Seen) -> str:
        """Return the text with the places of pictures, and no other tokens of pictures: it may quote the policy."""
        text = text_of(observation)
        for name in self._vision.names:
            text = text.replace(name, "")
        return text.replace(IMAGE, self._place)

    def _expanded(self, ids: list[int], observation: Seen) -> list[int]:
        return self._vision.expand(ids, pictures_of(observation))


def picture_dialogue(rendering: str, processor: Any, chat: Callable[[Any], Dialogue]) -> PictureDialogue:
    """Return the dialogue of a rendering with pictures.

    chat   tokenizer -> dialogue, for the rendering `chat_image`

    Raises RunError if the model sees no pictures.
    """
    if not isinstance(processor, VisionProcessor):
        raise RunError(
            f"the rendering {rendering} has pictures, and the model sees none",
            where="train.rendering",
            fix="name a Qwen2.5-VL with model.path, or train.rendering=chat",
        )
    if rendering == "compact_image":
        return PictureDialogue(PictureWords(processor), processor, IMAGE)
    return PictureDialogue(chat(processor.tokenizer), processor, processor.place)
