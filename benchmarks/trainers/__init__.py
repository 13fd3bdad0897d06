"""The measurements of `bench_trainer.py`: the embedded trainer, TRL's trainer at the same work, and the work itself."""
