"""Search over options of runs: a search file becomes an Optuna study, and each trial is one or more ordinary runs."""
