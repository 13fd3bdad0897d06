"""Readers of what scripts log, one file a format. They serve runs, which follow files, and `plat import`.

Each yields `logged.Logged` values: a step, the name that counts it, metrics and a time.
"""
