"""Hand runs to Ray: each submission is a `tune.Tuner` whose trials are its tasks.

On a running cluster Ray's Jobs API starts the Tuner, so the runs continue after the command that submitted them. On a
private Ray the Tuner is in a child process of the command.
"""
