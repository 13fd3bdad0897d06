"""A search on Ray: one `tune.Tuner` whose trials are the trials of the study; Tune's schedulers stop bad ones."""
