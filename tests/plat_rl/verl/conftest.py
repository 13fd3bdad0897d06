"""What the tests of the verl trainer share: configs as users compose them, and a chat tokenizer made here."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from listening import listening
from verl_processes import PPO, run

from plat.spec.expansion.experiment import build_run, config_object
from plat_rl.verl.settings.verl_config import VerlRunConfig
from plat_rl.verl.spec import VerlTrainer

QWEN = (
    "{% if messages[0]['role'] != 'system' %}<|im_start|>system\nYou are helpful.<|im_end|>\n{% endif %}"
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n{{ message['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
LLAMA = (
    "<|begin_of_text|>{% for message in messages %}<|start_header_id|>{{ message['role'] }}<|end_header_id|>\n\n"
    "{{ message['content'] | trim }}<|eot_id|>{% endfor %}"
    "{% if add_generation_prompt %}<|start_header_id|>assistant<|end_header_id|>\n\n{% endif %}"
)
# A template that leaves out what the assistant said before the last turn, as some reasoning models do.
FORGETFUL = (
    "{% for message in messages %}{% if message['role'] != 'assistant' or loop.last %}<|im_start|>"
    "{{ message['role'] }}\n{{ message['content'] }}<|im_end|>\n{% endif %}{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
FAMILIES = {  # name -> (template, end of text)
    "qwen": (QWEN, "<|im_end|>"),
    "qwen-base": (QWEN, "<|endoftext|>"),
    "llama": (LLAMA, "<|eot_id|>"),
    "forgetful": (FORGETFUL, "<|im_end|>"),
}
SPECIAL = ("<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|begin_of_text|>", "<|start_header_id|>",
           "<|end_header_id|>", "<|eot_id|>")  # fmt: skip


def make_tokenizer(family: str) -> Any:
    """A Hugging Face tokenizer of bytes with a family's chat template: any text goes through it and comes back."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    inner = Tokenizer(models.BPE({letter: number for number, letter in enumerate(letters)}, []))
    inner.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    inner.decoder = decoders.ByteLevel()
    inner.add_special_tokens(list(SPECIAL))
    template, eos = FAMILIES[family]
    return PreTrainedTokenizerFast(tokenizer_object=inner, eos_token=eos, pad_token=eos, chat_template=template)


@pytest.fixture(scope="session")
def chat_tokenizer() -> Callable[[str], Any]:
    """`chat_tokenizer("qwen")`: see FAMILIES."""
    return make_tokenizer


@pytest.fixture(scope="session")
def make_config() -> Callable[..., VerlRunConfig]:
    """`make_config("algorithm=ppo", ...)`: the config of a smoke run with verl."""
    return lambda *overrides: config_object(build_run(["trainer=verl", "scale=smoke", *overrides]), VerlTrainer())


@pytest.fixture(scope="session")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The home of a finished run of PPO with the filter; `sockets.json` has what listened meanwhile."""
    home = tmp_path_factory.mktemp("verl") / "ppo"
    with listening() as sockets:
        assert run(home, *PPO)["outcome"] == "finished"
    (home / "sockets.json").write_text(json.dumps({"seen": len(sockets.seen), "exposed": sorted(sockets.exposed)}))
    return home
