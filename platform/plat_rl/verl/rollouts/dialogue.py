"""Prompts as token ids, for the tokenizer that verl loaded: whole words for stand-ins, a chat template for real models.

Earlier text of an episode is never tokenised again, so the spans of responses and reasonings are exact. The
assistant's turn always begins with `<think>`, which is part of the prompt.
"""

from __future__ import annotations

from typing import Any

from plat.errors import RunError
from plat_envs.stand_in import END_THINK, THINK
from plat_rl.embedded.transformer.tokenizer import WordTokenizer
from plat_rl.loop.turns import Dialogue

MARK = "plat-content"  # placeholder to find the text that a template writes around a message


class ChatDialogue:
    """A Hugging Face tokenizer with a chat template.

    The constructor raises RunError if the template does not end the assistant's turn, `following` if it changes earlier
    messages.
    """

    def __init__(self, tokenizer: Any) -> None:
        self._tokenizer = tokenizer
        said = self._rendered([_user(MARK), _assistant(MARK + MARK)], prompted=False)
        end = said.rindex(MARK) + len(MARK)
        closing = tokenizer.encode(said[end:], add_special_tokens=False)
        if not closing:
            raise RunError("the model's chat template does not end the assistant's turn", where="model")
        self.stops: tuple[int, ...] = tuple(dict.fromkeys((int(closing[0]), int(tokenizer.eos_token_id))))
        self._closing = tokenizer.decode(closing[:1])
        self._prefix = said[:end] + self._closing

    def prompt(self, observation: str, instructions: str = "") -> list[int]:
        messages = [{"role": "system", "content": instructions}] if instructions else []
        return self._ids(self._rendered([*messages, _user(observation)], prompted=True) + THINK)

    def following(self, observation: str) -> list[int]:
        whole = self._rendered([_user(MARK), _assistant(MARK + MARK), _user(observation)], prompted=True)
        if not whole.startswith(self._prefix):
            raise RunError(
                "the model's chat template changes earlier turns when a later one is added",
                where="model",
                fix="use a model whose template only appends, e.g. Qwen2.5 or Llama 3.2",
            )
        return self._ids(whole[len(self._prefix) :] + THINK)

    def decode(self, ids: list[int]) -> str:
        text: str = self._tokenizer.decode(ids, skip_special_tokens=True)
        return text

    def reasoning_tokens(self, response: list[int]) -> int:
        position = self.decode(response).find(END_THINK)
        if position < 0:
            return -1
        low, high = 0, len(response)  # the longest beginning whose text ends before the tag
        while low < high:
            middle = (low + high + 1) // 2
            if len(self.decode(response[:middle])) <= position:
                low = middle
            else:
                high = middle - 1
        return low

    def _rendered(self, messages: list[dict[str, str]], prompted: bool) -> str:
        text: str = self._tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=prompted)
        return text

    def _ids(self, text: str) -> list[int]:
        ids: list[int] = self._tokenizer.encode(text, add_special_tokens=False)
        return ids


def dialogue_of(rendering: str, tokenizer: Any) -> Dialogue:
    """Return a WordTokenizer for `compact` (`tokenizer` is ignored), else a ChatDialogue (which may raise RunError)."""
    return WordTokenizer() if rendering == "compact" else ChatDialogue(tokenizer)


def _user(content: str) -> dict[str, str]:
    return {"role": "user", "content": content}


def _assistant(content: str) -> dict[str, str]:
    return {"role": "assistant", "content": content}
