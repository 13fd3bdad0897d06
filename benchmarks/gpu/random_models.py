"""Models with random weights, made on the spot: nothing is downloaded. They show cost and agreement, not learning.

Text of random tokens never has a reasoning or an answer, so nothing could be scored or learnt from it. Therefore the
tokenizers have a token for each whole answer, such as `</think> <answer> up </answer>`, and the embeddings are made so
that each token is one of them with the probability ANSWERS, and the end of the text follows an answer. Everything else
is random, and the matrices that write into the residual stream are small, so that the last token decides.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

COMMON = {"tie_word_embeddings": True, "max_position_embeddings": 32768}
SHAPES: dict[str, dict[str, Any]] = {
    "0.1 M": {"hidden_size": 64, "intermediate_size": 144, "num_hidden_layers": 2, "num_attention_heads": 4,
              "num_key_value_heads": 2, "vocab_size": 384},
    "100 M": {"hidden_size": 640, "intermediate_size": 1920, "num_hidden_layers": 15, "num_attention_heads": 10,
              "num_key_value_heads": 10, "vocab_size": 32000},
    # The shape of Qwen2.5-0.5B.
    "494 M": {"hidden_size": 896, "intermediate_size": 4864, "num_hidden_layers": 24, "num_attention_heads": 14,
              "num_key_value_heads": 2, "vocab_size": 151936},
}  # fmt: skip
TINY = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 2,
        "num_key_value_heads": 2, "vocab_size": 384}  # fmt: skip
SPECIAL = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
ANSWERING = [f"</think> <answer> {way} </answer>" for way in ("up", "down", "left", "right")]
ANSWERS = 0.01  # probability that a token is an answer
TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n{{ message['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


def folder_of(models: Path, size: str) -> Path:
    """Return the folder of the model of a size among SHAPES."""
    return models / size.replace(" ", "")


def make_model(folder: Path, shape: dict[str, Any]) -> int:
    """Write a Qwen2 checkpoint with random weights and a tokenizer of bytes; return its number of parameters."""
    import torch
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast, Qwen2Config, Qwen2ForCausalLM

    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    inner = Tokenizer(models.BPE({letter: number for number, letter in enumerate(letters)}, []))
    inner.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    inner.decoder = decoders.ByteLevel()
    inner.add_special_tokens(list(SPECIAL))
    inner.add_tokens(ANSWERING)
    tokens = {"eos_token": "<|im_end|>", "pad_token": "<|endoftext|>"}
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=inner, chat_template=TEMPLATE, **tokens)
    tokenizer.save_pretrained(folder)
    torch.manual_seed(0)
    ids = {"eos_token_id": tokenizer.eos_token_id, "pad_token_id": tokenizer.pad_token_id, "bos_token_id": None}
    model = Qwen2ForCausalLM(Qwen2Config(**shape, **COMMON, **ids))
    _make_it_answer(model, tokenizer.convert_tokens_to_ids(ANSWERING), tokenizer.eos_token_id)
    model.save_pretrained(folder)
    return sum(parameter.numel() for parameter in model.parameters())


def _make_it_answer(model: Any, answers: list[int], end: int) -> None:
    """Change the weights of a model so that its text has answers (see above).

    All embeddings share a first element of 1, so that of a hidden state is nearly constant. Answers have a larger one,
    which raises their scores. The second element is 0 but for answers and for the end, which it makes follow them.
    """
    import torch

    embeddings = model.get_input_embeddings().weight
    words, width = embeddings.shape
    score = math.log(ANSWERS * words / (len(answers) * (1 - ANSWERS)))  # above that of an ordinary token
    hidden = math.sqrt(width / (1 + width * model.config.initializer_range**2))  # the first element, after the norm
    with torch.no_grad():
        embeddings[:, 0], embeddings[:, 1] = 1, 0
        embeddings[answers, 0] += score / hidden
        embeddings[answers, 1], embeddings[end, 1] = 1, 3
        for layer in model.model.layers:
            layer.self_attn.o_proj.weight *= 0.02
            layer.mlp.down_proj.weight *= 0.02
