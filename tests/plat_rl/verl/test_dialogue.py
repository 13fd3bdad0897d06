"""Prompts and spans as token ids: nothing that was said is tokenised again, and every span is exact."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plat.errors import RunError
from plat_rl.embedded.transformer.tokenizer import WordTokenizer
from plat_rl.verl.rollouts.verl_episode import ChatDialogue, dialogue_of

Make = Callable[[str], Any]


@pytest.mark.parametrize("family", ["qwen", "qwen-base", "llama"])
def test_turn_by_turn_gives_what_the_template_gives_for_the_whole_dialogue(chat_tokenizer: Make, family: str) -> None:
    tokenizer = chat_tokenizer(family)
    dialogue = ChatDialogue(tokenizer)
    said = "i think </think> <answer> up </answer>"
    ids = dialogue.prompt("state one", "play the game")
    ids += [*tokenizer.encode(said, add_special_tokens=False), dialogue.stops[0]]
    ids += dialogue.following("state two")
    whole = tokenizer.apply_chat_template(
        [
            {"role": "system", "content": "play the game"},
            {"role": "user", "content": "state one"},
            {"role": "assistant", "content": "<think>" + said},
            {"role": "user", "content": "state two"},
        ],
        tokenize=False,
        add_generation_prompt=True,
    )
    assert ids == tokenizer.encode(whole + "<think>", add_special_tokens=False)


def test_a_base_model_stops_at_the_end_of_the_turn_and_at_the_end_of_text(chat_tokenizer: Make) -> None:
    tokenizer = chat_tokenizer("qwen-base")
    ends = tokenizer.convert_tokens_to_ids(["<|im_end|>", "<|endoftext|>"])
    assert list(ChatDialogue(tokenizer).stops) == ends


def test_a_template_that_changes_earlier_turns_is_refused(chat_tokenizer: Make) -> None:
    with pytest.raises(RunError, match="changes earlier turns"):
        ChatDialogue(chat_tokenizer("forgetful")).following("state")


TOKENIZER: list[Any] = []


@given(before=st.text(max_size=12), after=st.text(max_size=12))
def test_reasoning_ends_where_its_tag_begins(chat_tokenizer: Make, before: str, after: str) -> None:
    if not TOKENIZER:
        TOKENIZER.append(chat_tokenizer("qwen"))
    tokenizer, dialogue = TOKENIZER[0], ChatDialogue(TOKENIZER[0])
    before = before.replace("<", "(")
    ids = tokenizer.encode(before + "</think>" + after, add_special_tokens=False)
    count = dialogue.reasoning_tokens(ids)
    assert dialogue.decode(ids[:count]) == before
    assert dialogue.reasoning_tokens(tokenizer.encode(before, add_special_tokens=False)) == -1


def test_the_words_of_the_stand_ins() -> None:
    dialogue = dialogue_of("compact", None)
    assert isinstance(dialogue, WordTokenizer)
    observation = dialogue.decode([5, 6, 7])
    assert dialogue.prompt(observation) == dialogue.following(observation) == [5, 6, 7]
    assert dialogue.stops == (dialogue.eos,)
    response = [9, 10, dialogue.encode("</think>")[0], 11]
    assert dialogue.reasoning_tokens(response) == 2 and dialogue.reasoning_tokens([9]) == -1
