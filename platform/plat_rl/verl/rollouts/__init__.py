"""Episodes played through verl's rollout workers: training, evaluation, probe."""
