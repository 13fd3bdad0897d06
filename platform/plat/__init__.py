"""plat runs the experiments of a paper and says which of its claims hold."""

__version__ = "0.2.0"
