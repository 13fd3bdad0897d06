"""What `bench_trainer.py` measures: the embedded trainer and TRL's at the same work, and the work itself."""
