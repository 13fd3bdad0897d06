"""Hands runs to SLURM: `dispatcher` follows them, `submission` hands them over, `task` executes them in a job."""
