"""The same jobs, which do nothing, for plat, submitit, Hydra's submitit launcher and Ray Tune."""
