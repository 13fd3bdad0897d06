"""The same jobs, which do nothing, given to plat, submitit, Hydra's submitit launcher and Ray Tune."""
