"""plat runs the experiments of a paper and says which of its claims hold."""

__version__ = "0.3.0.dev0"
