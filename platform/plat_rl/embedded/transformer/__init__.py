"""The Qwen2-format transformer that every stand-in is: forward passes, decoding, tokenizers and files."""
