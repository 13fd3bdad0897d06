"""Stub."""


def published_problem(config, split, seed):
    raise NotImplementedError
