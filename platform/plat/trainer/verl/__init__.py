"""The trainer for real language models: verl's synchronous trainer, on a cluster's GPUs or, for tests, on CPU cores.

Read in this order: `spec` and `config` (what the platform sees), `train` (a run from its beginning to its end),
`trainer` (an iteration: Algorithm 1 with verl's own workers), `play` and `agent_loop` (the trajectories), `overrides`
(the run's config as verl's), `cluster` (the Ray that a run uses). `cpu/` is what verl needs on a machine without GPUs.

What is measured, logged and saved when is the same as in the embedded trainer: `plat.trainer.loop`.
"""
