"""The built-in trainer: small Qwen2-format transformers trained in one process, on CPU or one CUDA device.

Read in this order: `spec` (what the platform sees), `train` (the loop, Algorithm 1), `collect` and `rollout` (the
trajectories), `cross_score` (mutual information), `learner` (the update), `evaluate` and `probe` (what is measured at
an evaluation). `transformer/` holds the network, `base_model/` how a stand-in's base model is made. What is the same
for every trainer is in `plat_rl.loop`: the order of a run, the filter, what each random number depends on.
"""
