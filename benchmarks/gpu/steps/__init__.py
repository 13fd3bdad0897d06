"""What the kit measures: a module for each step of `benchmarks/gpu/run.py`, run as `python -m steps.NAME`."""
