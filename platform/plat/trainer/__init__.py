"""Trainers: what turns a config into a history of metrics. `api` is the contract, `embedded` the built-in one."""
