"""Hand runs to SLURM: `slurm_dispatcher` follows them, `submission` submits them, `slurm_task` executes them."""
