"""Searches over options of runs: a search file becomes a study of Optuna, whose trials are runs like any other.

file.py      a search file, read and checked        space.py     what is searched over
study.py     the study: ask, report, tell           samplers.py  which sampler of Optuna, seeded for each trial
source.py    the trials as a source of the driver   pruners.py   when a trial is given up
values.py    what a run's history says of it        summary.py   what the study has come to
"""
