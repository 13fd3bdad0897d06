"""Verbs of the filtered trainer: `plat base`, `plat sandbox`, `plat retrieval`, `plat trajectory`."""
