"""Figures of RAGEN-2: rewards of prompts, gradients by bucket, and how measures move together."""
