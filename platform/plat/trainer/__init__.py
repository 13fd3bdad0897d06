"""Trainers turn a config into a history of metrics. `api` is the contract.

`script` runs a script; `recorded` has runs of others.
"""
