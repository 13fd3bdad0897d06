"""Make an encoder with random weights: a BERT of two layers whose tokenizer knows the words of some texts."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path


def tiny_encoder(folder: Path, texts: Iterable[str], width: int = 64) -> Path:
    """Write an encoder into a folder, in the format of Hugging Face, and return the folder."""
    import torch
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers
    from transformers import BertConfig, BertModel, PreTrainedTokenizerFast

    words = sorted({word for text in texts for word in re.findall(r"\w+|[^\w\s]", text.lower())})
    known = {word: n for n, word in enumerate(dict.fromkeys(["[PAD]", "[UNK]", "query", "passage", ":", *words]))}
    tokenizer = Tokenizer(models.WordLevel(known, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.Lowercase()
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, unk_token="[UNK]", pad_token="[PAD]")
    fast.save_pretrained(folder)
    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=len(known),
        hidden_size=width,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=2 * width,
        max_position_embeddings=256,
        initializer_range=0.2,  # ten times BERT's, or all texts would have nearly the same vector
    )
    BertModel(config).save_pretrained(folder)
    return folder
