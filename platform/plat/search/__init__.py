"""Searches over options of runs: a search file becomes a study of Optuna, whose trials are runs like any other.

file.py      a search file, read and checked        search.py    the search: what varies, and the runs of a trial
settings.py  its objectives, sampler, pruner, ...   space.py     what is varied, and between which ends
study.py     the study: ask, report, tell           samplers.py  which sampler of Optuna, seeded for each trial
source.py    the trials as a source of the driver   pruners.py   when a trial is given up
trial.py     one trial under way                    values.py    what a run's events say of it
summary.py   what the study has come to
"""
