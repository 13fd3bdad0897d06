"""The trainer for real language models: verl's synchronous trainer, on GPUs of a cluster or, for tests, on CPU cores.

Read in this order: `spec` and `settings.verl_config` (the platform's view), `train` (a run), `update.trainer` (an
iteration: Algorithm 1 with verl's workers), `rollouts` (the trajectories), `settings.verl_overrides` (the run's config
as verl's), `machines.private_cluster` (the run's Ray). `cpu` has the parts that verl lacks without GPUs, `vision` what
models that see pictures need. `plat_rl.loop` decides what is measured, logged and saved, as in the embedded
trainer.
"""
