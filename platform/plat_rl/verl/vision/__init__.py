"""Models that see pictures (Qwen2.5-VL): their processor, and prompts with pictures."""
