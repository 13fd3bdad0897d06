"""Trainers turn a config into a history of metrics. `api` is the contract, `embedded` the built-in trainer."""
