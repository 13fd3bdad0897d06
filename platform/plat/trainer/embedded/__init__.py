"""The built-in trainer: small Qwen2-format transformers trained in one process, on CPU or one CUDA device.

Read in this order: `spec` (what the platform sees), `train` (the loop), `rollout`, `cross_score`, `update`,
`evaluate`, `model` (the forward pass), `base` (how a stand-in's base model is made).
"""
